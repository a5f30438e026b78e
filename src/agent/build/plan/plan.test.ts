import { describe, expect, test } from 'vitest'
import { smallestProjects } from '../../../../test/support/agent/smallest-projects.ts'
import { BuildFault } from '../fault.ts'
import { planProject, providers } from './index.ts'
import { packageManagers } from './node/managers.ts'
import { frameworks } from './node/frameworks.ts'
import { isPlanFile } from './project.ts'
import { type BuildPlan, type ProviderName, providerNames, type ToolName, toolNames } from './types.ts'
import { defaultVersions, versionSources } from './versions.ts'

type Files = Readonly<Record<string, string>>

const planOf = (files: Files, root?: string) =>
  planProject(
    {
      paths: new Set(Object.keys(files)),
      texts: new Map(Object.entries(files).filter(([path]) => isPlanFile(path))),
    },
    root,
  )
const json = (value: unknown) => JSON.stringify(value, null, 2)
const versionIn = (plan: BuildPlan, tool: ToolName) => plan.tools.find(one => one.tool === tool)

describe('the providers of build plans', () => {
  test('the list of providers contains each one once', () => {
    expect(providers.map(({ name }) => name)).toEqual(providerNames)
  })

  test.each(providerNames)('the smallest %s project has a plan with default versions', name => {
    const plan = planOf(smallestProjects[name])
    expect(plan.provider).toBe(name)
    for (const { tool, version, from } of plan.tools) {
      expect(from).toBeNull()
      expect(version).toBe(defaultVersions[tool])
    }
    const isServed = plan.start !== null || plan.staticDir !== null || name === 'dockerfile'
    expect(isServed).toBe(true)
  })

  test.each(providerNames)('a %s project in a subdirectory of a monorepo has the same plan', name => {
    const moved = Object.fromEntries(
      Object.entries(smallestProjects[name]).map(([path, text]) => [`apps/web/${path}`, text]),
    )
    expect(planOf({ ...moved, 'package.json': '{}' }, 'apps/web')).toEqual(planOf(smallestProjects[name]))
  })

  test('a Dockerfile wins over every other provider, and its EXPOSE decides the port', () => {
    for (const name of providerNames)
      expect(planOf({ ...smallestProjects[name], ...smallestProjects.dockerfile })).toMatchObject({
        provider: 'dockerfile',
        port: 9000,
      })
  })

  test.each(providerNames.filter(name => name !== 'dockerfile' && name !== 'static'))(
    'the web process of a Procfile starts a %s project',
    name => {
      const plan = planOf({ ...smallestProjects[name], Procfile: 'worker: x\nweb: ./serve --now\n' })
      expect(plan.start).toBe('./serve --now')
      expect(plan.note).toContain('the build starts no worker.')
    },
  )

  test('the release command of a Procfile is never used as the start command', () => {
    const plan = planOf({ ...smallestProjects.go, Procfile: 'release: ./migrate\nbot: ./bot\n' })
    expect([plan.start, plan.note]).toEqual(['./bot', expect.stringContaining('starts no release.')])
    expect(planOf({ ...smallestProjects.go, Procfile: 'release: ./migrate\n' }).start).not.toContain('migrate')
  })

  test('the log does not mention a Procfile if mote.toml declares the processes', () => {
    const plan = planOf({ ...smallestProjects.go, Procfile: 'web: ./a\nbot: ./bot\n', 'mote.toml': 'app = "a"\n' })
    expect(plan.note).toBeNull()
  })
})

/** For each file in which a project can name a tool's version: the text that names it. */
const spellings: Readonly<Record<string, (tool: ToolName, version: string) => string>> = {
  'mise.toml': (tool, version) => `[tools]\n${tool} = "${version}"\n`,
  '.tool-versions': (tool, version) => `${tool === 'node' ? 'nodejs' : tool === 'go' ? 'golang' : tool} ${version}\n`,
  Pipfile: (_, version) => `[requires]\npython_version = "${version}"\n`,
  'go.mod': (_, version) => `module a\n\ngo ${version}\n`,
  'go.work': (_, version) => `go ${version}\n`,
  'rust-toolchain.toml': (_, version) => `[toolchain]\nchannel = "${version}"\n`,
  'Cargo.toml': (_, version) => `[package]\nname = "a"\nrust-version = "${version}"\n`,
  Gemfile: (_, version) => `source "x"\nruby "${version}"\n`,
  'Gemfile.lock': (_, version) => `GEM\n\nRUBY VERSION\n   ruby ${version}\n`,
  'pom.xml': (_, version) => `<project>\n<java.version>${version}</java.version></project>`,
  'build.gradle': (_, version) => `sourceCompatibility = '${version}'\n`,
  'build.gradle.kts': (_, version) => `kotlin { jvmToolchain(${version}) }\n`,
  'composer.json': (_, version) => json({ require: { php: version } }),
  'global.json': (_, version) => json({ sdk: { version } }),
  'mix.exs': (_, version) => `app: :shop,\nelixir: "${version}"\n`,
  'gleam.toml': (_, version) => `name = "a"\ngleam = "${version}"\n`,
  '.yarnrc.yml': (_, version) => `yarnPath: .yarn/releases/yarn-${version}.cjs\n`,
  'package.json': (tool, version) =>
    json({ scripts: { start: 'node index.js' }, dependencies: { a: '1' }, engines: { [tool]: version } }),
}
const pyproject: Readonly<Partial<Record<ToolName, (version: string) => string>>> = {
  python: version => `[project]\nname = "a"\nrequires-python = "${version}"\n`,
  uv: version => `[project]\nname = "a"\n\n[tool.uv]\nrequired-version = "${version}"\n`,
}

/** Sample projects that need a tool which is no provider, such as a package manager. */
const projectWith: Readonly<Partial<Record<ToolName, Files>>> = {
  ...Object.fromEntries(
    packageManagers.map(({ tool, locks }) => [tool, { ...smallestProjects.node, [locks[0] ?? '']: '' }] as const),
  ),
  uv: { ...smallestProjects.python, 'pyproject.toml': '', 'uv.lock': '' },
  poetry: { ...smallestProjects.python, 'pyproject.toml': '', 'poetry.lock': '' },
  pdm: { ...smallestProjects.python, 'pyproject.toml': '', 'pdm.lock': '' },
  pipenv: { ...smallestProjects.python, Pipfile: '' },
  erlang: smallestProjects.elixir,
}

const isProvider = (name: string): name is ProviderName => providerNames.some(one => one === name)
const projectOf = (tool: ToolName): Files => projectWith[tool] ?? (isProvider(tool) ? smallestProjects[tool] : {})

describe('tool versions', () => {
  const cases = toolNames.flatMap(tool =>
    [...new Set(versionSources[tool].map(([file]) => file))].map(file => [tool, file] as const),
  )
  test.each(cases)('%s: the version in %s is used, and the plan names file and line', (tool, file) => {
    const version = tool === 'java' ? '17' : '3.4.5'
    const spelled =
      file === 'pyproject.toml' ? pyproject[tool]?.(version) : (spellings[file]?.(tool, version) ?? `${version}\n`)
    const text = spelled ?? ''
    const line = text.split('\n').findIndex(one => one.includes(version)) + 1
    expect(versionIn(planOf({ ...projectOf(tool), [file]: text }), tool)).toEqual({
      tool,
      version,
      from: { file, line },
    })
  })

  test.each(packageManagers.map(({ tool }) => tool))('packageManager names %s without a lock file', tool => {
    const plan = planOf({
      'package.json': json({ packageManager: `${tool}@3.2.1+sha512.abc`, scripts: { start: 'x' } }),
    })
    expect(versionIn(plan, tool)).toEqual({ tool, version: '3.2.1', from: { file: 'package.json', line: 2 } })
  })

  test.each(['lts/*', 'lts/jod', 'node', 'latest'])('the alias %s means the default version of Node', alias => {
    const plan = planOf({ ...smallestProjects.node, '.nvmrc': `${alias}\n` })
    expect(versionIn(plan, 'node')?.version).toBe(defaultVersions.node)
  })

  test.each([
    ['.nvmrc', '# ours\nfast\n', /^\.nvmrc, line 2: "fast" is no version of node\. Write a version such as 24\.$/],
    ['.nvmrc', '$(reboot)', /^\.nvmrc, line 1: /],
  ] as const)('an invalid version in %s is refused with the line number', (file, text, message) => {
    expect(() => planOf({ ...smallestProjects.node, [file]: text })).toThrow(message)
  })

  test('the toolchain line of go.mod wins over its go line', () => {
    const plan = planOf({ ...smallestProjects.go, 'go.mod': 'module a\n\ngo 1.24\n\ntoolchain go1.26.1\n' })
    expect(plan.tools).toEqual([{ tool: 'go', version: '1.26.1', from: { file: 'go.mod', line: 5 } }])
  })
})

describe('package managers in build plans', () => {
  const locks = packageManagers.flatMap(({ tool, locks: names }) => names.map(lock => [lock, tool] as const))
  test.each(locks)('%s selects %s, which installs the locked versions', (lock, tool) => {
    const plan = planOf({ ...smallestProjects.node, [lock]: '' })
    expect(plan.tools.map(one => one.tool)).toContain(tool)
    expect(plan.install).toHaveLength(1)
    expect(plan.install[0]).toMatch(new RegExp(`^${tool} (?:ci$|install --frozen-lockfile)`))
    expect(plan.start).toBe(`${tool} run start`)
  })

  test('Yarn 2 and newer installs with --immutable', () => {
    const plan = planOf({ ...smallestProjects.node, 'yarn.lock': '# yarn\n\n__metadata:\n  version: 8\n' })
    expect(plan.install).toEqual(['yarn install --immutable'])
  })

  test.each([
    ['uv.lock', 'uv sync --locked --no-dev --no-editable'],
    ['poetry.lock', 'poetry install --no-interaction --no-ansi --only main --no-root'],
    ['pdm.lock', 'pdm install --check --prod --no-editable'],
    ['Pipfile', 'pipenv install --skip-lock'],
    ['requirements.txt', 'pip install -r requirements.txt'],
    ['setup.py', 'pip install .'],
  ])('a Python project with %s is installed with: %s', (file, command) => {
    expect(planOf({ ...smallestProjects.python, [file]: '' }).install).toEqual([command])
  })

  test('an unknown package manager is refused with the line number', () => {
    expect(() => planOf({ 'package.json': json({ name: 'a', packageManager: 'ied@1.0.0' }) })).toThrow(
      /^package\.json, line 3: "ied@1\.0\.0" is not supported/,
    )
  })
})

const markers: Readonly<Record<string, readonly [files: Files, dependencies: readonly string[], served: string]>> = {
  next: [{}, ['next'], 'next start -p $PORT'],
  nuxt: [{}, ['nuxt'], 'node .output/server/index.mjs'],
  'react-router': [{}, ['@react-router/dev', 'vite'], 'react-router-serve ./build/server/index.js'],
  remix: [{}, ['@remix-run/dev', 'vite'], 'remix-serve ./build/server/index.js'],
  sveltekit: [{}, ['@sveltejs/kit', 'vite'], 'node build'],
  'tanstack-start': [{}, ['@tanstack/react-start', 'vite'], 'npx srvx --prod -s ../client dist/server/server.js'],
  astro: [{}, ['astro', 'vite'], 'dir dist'],
  expo: [{}, ['expo'], 'dir dist'],
  'create-react-app': [{}, ['react-scripts'], 'dir build'],
  angular: [
    { 'angular.json': json({ projects: { shop: { builder: '@angular/build:application' } } }) },
    [],
    'dir dist/shop/browser',
  ],
  gatsby: [{}, ['gatsby'], 'dir public'],
  docusaurus: [{}, ['@docusaurus/core'], 'dir build'],
  eleventy: [{}, ['@11ty/eleventy'], 'dir _site'],
  'vue-cli': [{}, ['@vue/cli-service'], 'dir dist'],
  vite: [{ 'vite.config.ts': `export default { build: { outDir: 'site' } }` }, ['vite'], 'dir site'],
}

describe('Node frameworks', () => {
  test('every framework in the list has a test case', () =>
    expect(Object.keys(markers)).toEqual(frameworks.map(({ name }) => name)))

  test.each(Object.entries(markers))(
    'a project with %s gets the start command or served directory of that framework',
    (framework, [files, names, served]) => {
      const dependencies = Object.fromEntries(names.map(name => [name, '1']))
      const plan = planOf({ ...files, 'package.json': json({ scripts: { build: 'b' }, dependencies }) })
      expect(plan.framework).toBe(framework)
      expect(plan.build).toEqual(['npm run build'])
      expect(plan.staticDir === null ? plan.start : `dir ${plan.staticDir}`).toBe(served)
    },
  )

  test.each([
    ['next', 'next.config.mjs', `export default { output: 'export' }`, 'out'],
    ['@react-router/dev', 'react-router.config.ts', 'export default { ssr: false }', 'build/client'],
    ['@sveltejs/kit', 'package.json', '', 'build'],
  ])('%s is planned as a static site if it exports one', (name, file, text, dir) => {
    const dependencies = { [name]: '1', '@sveltejs/adapter-static': '1' }
    const own = { 'package.json': json({ scripts: { build: 'b', start: 'vite preview' }, dependencies }) }
    expect(planOf({ [file]: text, ...own })).toMatchObject({ staticDir: dir, start: null })
  })

  test('Astro with an adapter is started as a server', () => {
    const own = { 'package.json': json({ scripts: { build: 'b' }, dependencies: { astro: '5' } }) }
    const plan = planOf({ ...own, 'astro.config.mjs': 'export default { adapter: node() }' })
    expect(plan).toMatchObject({ staticDir: null, start: 'HOST=0.0.0.0 node dist/server/entry.mjs' })
  })

  test("a start script that runs the project's own server is used although the project has Vite", () => {
    const own = json({ scripts: { build: 'vite build', start: 'node server.js' }, dependencies: { vite: '6' } })
    expect(planOf({ 'package.json': own })).toMatchObject({ staticDir: null, start: 'npm run start' })
  })
})

describe('Python frameworks', () => {
  test.each([
    ['fastapi', 'fastapi\nuvicorn\n', 'uvicorn main:app --host 0.0.0.0 --port $PORT'],
    ['flask', 'Flask==3\ngunicorn\n', 'gunicorn --bind 0.0.0.0:$PORT main:app'],
    ['flask', 'flask\n', 'python main.py'],
  ])('%s is detected by its dependencies', (framework, text, start) => {
    expect(planOf({ 'main.py': '', 'requirements.txt': text })).toMatchObject({ framework, start })
  })

  test('Django starts the WSGI application that its settings name', () => {
    const settings = `DEBUG = False\nWSGI_APPLICATION = 'shop.wsgi.application'\n`
    const plan = planOf({ 'manage.py': '', 'requirements.txt': 'django\n', 'shop/settings.py': settings })
    expect(plan).toMatchObject({ framework: 'django', start: 'gunicorn --bind 0.0.0.0:$PORT shop.wsgi:application' })
  })
})

describe('projects that cannot be planned', () => {
  test.each([
    ['a project of no known kind', { 'README.md': '' }, /Add a Dockerfile, or one of/],
    [
      'a Node project with nothing to run',
      { 'package.json': '{}' },
      /^package\.json, line 1: There is no "start" script/,
    ],
    ['a broken package.json', { 'package.json': '{\n  "a": 1,\n}' }, /^package\.json, line 3: .*not valid JSON/],
    ['a Python project with nothing to run', { 'requirements.txt': '' }, /^requirements\.txt, line 1: .*Procfile/],
    ['a library in Rust', { 'Cargo.toml': '', 'src/lib.rs': '' }, /^Cargo\.toml, line 1: .*main\.rs/],
    ['a library in Go', { 'go.mod': 'module a\n' }, /^go\.mod, line 1: No main package/],
    [
      'a Staticfile that names a missing directory',
      { Staticfile: 'root: dist\n' },
      /^Staticfile, line 1: There is no directory "dist"/,
    ],
  ] as const)('%s is refused with advice', (_, files, message) => {
    expect(() => planOf(files)).toThrow(BuildFault)
    expect(() => planOf(files)).toThrow(message)
  })

  test('a root directory that does not exist is refused', () => {
    expect(() => planOf(smallestProjects.node, 'apps/web')).toThrow(/no directory "apps\/web"/)
  })
})
