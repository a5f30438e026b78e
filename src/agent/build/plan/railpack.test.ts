import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { planProject } from './index.ts'
import { isPlanFile } from './project.ts'

type Files = Readonly<Record<string, string>>

const planOf = (files: Files) =>
  planProject({
    paths: new Set(Object.keys(files)),
    texts: new Map(Object.entries(files).filter(([path]) => isPlanFile(path))),
  })
const app = {
  'package.json': JSON.stringify({ scripts: { start: 'node a.js', build: 'tsc' }, dependencies: { a: '1' } }),
}
const withFile = (text: string, files: Files = app) => planOf({ ...files, 'railpack.json': text })

describe('railpack.json', () => {
  test('replaces the start command of any project, even one with a Procfile or without a start command', () => {
    const config = '{\n  // ours\n  "deploy": { "startCommand": "node b.js" },\n}'
    for (const files of [app, { 'package.json': '{}' }, { ...app, Procfile: 'web: node c.js\n' }, {}]) {
      const plan = withFile(config, files)
      expect(plan.start).toBe('node b.js')
      expect(plan.node?.script ?? null).toBeNull()
    }
  })

  test('replaces or extends the commands of the install and build steps', () => {
    const steps = {
      install: { commands: [{ src: 'a', dest: 'a' }, 'npm ci'] },
      build: { commands: ['...', { cmd: 'b' }] },
    }
    expect(withFile(JSON.stringify({ steps }))).toMatchObject({ install: ['npm ci'], build: ['npm run build', 'b'] })
  })

  test('chooses the provider and the versions of its tools', () => {
    const files = { ...app, 'index.html': '', 'start.sh': '#!/bin/bash\n' }
    expect(withFile('{"provider":"shell"}', files)).toMatchObject({ provider: 'shell', start: 'bash start.sh' })
    expect(withFile('{"provider":"staticfile"}', files)).toMatchObject({ provider: 'static', staticDir: '.' })
    const { tools } = withFile('{\n"packages": {\n"node": "20"}}')
    expect(tools[0]).toEqual({ tool: 'node', version: '20', from: { file: 'railpack.json', line: 3 } })
  })

  test.each([
    ['{\n"buildAptPackages": ["-o Dpkg"]}', /^railpack\.json, line 2: "-o Dpkg" is no name of a Debian package/],
    ['{"deploy": {\n"aptPackages": ["$(id)"]}}', /^railpack\.json, line 2: "\$\(id\)" is no name of a Debian package/],
    ['{\n"buildAptPackages": "jq"}', /^railpack\.json, line 2: "buildAptPackages" is no list\./],
    ['{"steps": {\n\n"seed": {"commands": ["x"]}}}', /^railpack\.json, line 3: Builds have no setting "seed"/],
    [
      '{"steps": {"build": {"variables": {\n"A-B": "b"}}}}',
      /^railpack\.json, line 2: "A-B" is no variable of one line\./,
    ],
    ['{"packages": {\n"python": "2.7"}}', /^railpack\.json, line 2: A build of node has python 3\.\d+, not 2\.7\./],
    ['{"packages": {\n"gleam": "1"}}', /^railpack\.json, line 2: A build of node does not install gleam\./],
    ['{"packages": {\n"cowsay": "1"}}', /^railpack\.json, line 2: Builds cannot install "cowsay"\./],
    ['{\n"provider": "cobol"}', /^railpack\.json, line 2: "cobol" is no provider\. Use one of: dockerfile, /],
  ])('is refused with the line number if a setting is invalid or has no equivalent: %j', (text, message) => {
    expect(() => withFile(text)).toThrow(message)
  })

  test('adds Debian packages to the build and to the image, and tools to those of the plan', () => {
    const config = {
      buildAptPackages: ['lsb-release', '...'],
      packages: { python: 'latest', node: '22' },
      deploy: { aptPackages: ['lsb-release'] },
    }
    expect(withFile(JSON.stringify(config)).debian).toEqual({
      build: ['lsb-release'],
      run: ['lsb-release', 'python-is-python3', 'python3', 'python3-venv'],
    })
  })

  test('sets variables for the commands of one step only', async () => {
    const variables = { WORDS: `it's "$HOME"`, OTHER: 2 }
    const { build, install } = withFile(
      JSON.stringify({ steps: { build: { variables, commands: ['echo "$WORDS $OTHER"'] } } }),
    )
    const { stdout } = await promisify(execFile)('/bin/sh', ['-c', build.join('\n')])
    expect(stdout).toBe(`it's "$HOME" 2\n`)
    expect(install).toEqual(planOf(app).install)
    const { build: planned } = withFile(JSON.stringify({ steps: { build: { variables: { A: 'b' } } } }))
    expect(planned).toEqual(["export A='b'; npm run build"])
  })

  test('may contain settings that only arrange image layers, which are ignored', () => {
    const config = { $schema: 'https://example.com', caches: {}, deploy: { inputs: ['...'], aptPackages: ['...'] } }
    expect(withFile(JSON.stringify(config))).toEqual(planOf(app))
  })
})

test('a Rust project keeps all of its binaries, and Rocket listens on all addresses', () => {
  const files = { 'src/main.rs': '', 'src/bin/job.rs': '', 'src/bin/tool/main.rs': '', 'src/bin/tool/part.rs': '' }
  const manifest = '[package]\nname = "shop"\n[dependencies]\nrocket = "0.5"\n'
  expect(planOf({ ...files, 'Cargo.toml': manifest })).toMatchObject({
    framework: 'rocket',
    start: 'ROCKET_ADDRESS=0.0.0.0 ROCKET_PORT=$PORT ./bin/shop',
    build: [
      'cargo build --release',
      'mkdir -p bin',
      'cp target/release/shop bin/',
      'cp target/release/job bin/',
      'cp target/release/tool bin/',
    ],
  })
})

test('latest means a newer Python than the default', () => {
  const { tools } = planOf({ 'main.py': '', 'mise.toml': '[tools]\npython = "latest"\n' })
  expect(tools[0]?.version).toBe('>=3.13')
})

test.each(['package.json5', 'package.yaml'])(
  'a manifest that only pnpm reads is refused with the file name: %s',
  file => {
    const files = { [file]: '', 'pnpm-lock.yaml': '', 'index.html': '' }
    expect(() => planOf(files)).toThrow(`${file}, line 1: Builds only read package.json.`)
    expect(planOf({ ...files, ...app }).provider).toBe('node')
    expect(planOf({ ...files, Dockerfile: 'FROM scratch' }).provider).toBe('dockerfile')
  },
)
