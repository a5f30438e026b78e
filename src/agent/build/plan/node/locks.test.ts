import { expect, test } from 'vitest'
import { planProject } from '../index.ts'
import { isPlanFile, keptText } from '../project.ts'

type Files = Readonly<Record<string, string>>

const planOf = (files: Files) =>
  planProject({
    paths: new Set(Object.keys(files)),
    texts: new Map(Object.entries(files).filter(([path]) => isPlanFile(path))),
  })
const own = (more: object = {}) =>
  JSON.stringify({ scripts: { start: 'node a.js' }, dependencies: { dayjs: '1' }, ...more })

test.each([
  ['pnpm-lock.yaml', 'lockfileVersion: 5.3\n', 'pnpm@6'],
  ['pnpm-lock.yaml', 'lockfileVersion: 5.4\n', 'pnpm@7'],
  ['pnpm-lock.yaml', `lockfileVersion: '6.0'\n`, 'pnpm@8'],
  ['pnpm-lock.yaml', `lockfileVersion: '9.0'\n`, 'pnpm@9'],
  ['pnpm-lock.yaml', `lockfileVersion: '12.0'\n`, 'pnpm@10'],
  ['yarn.lock', '# yarn\n\n__metadata:\n  version: 4\n', 'yarn@2'],
  ['yarn.lock', '__metadata:\n  version: 6\n', '@yarnpkg/cli-dist@3'],
  ['yarn.lock', '__metadata:\n  version: 8\n', '@yarnpkg/cli-dist@4'],
  ['yarn.lock', '# yarn lockfile v1\n', 'yarn@1'],
])('the format of %s decides the version of the package manager: %j', (lock, text, manager) => {
  expect(planOf({ 'package.json': own(), [lock]: text }).node?.packages.manager).toBe(manager)
})

test('the plan names the line of the lock file that decided the version', () => {
  const plan = planOf({ 'package.json': own(), 'yarn.lock': '# yarn\n\n__metadata:\n  version: 6\n' })
  expect(plan.tools[1]).toEqual({ tool: 'yarn', version: '3', from: { file: 'yarn.lock', line: 3 } })
})

test("a version that the project names wins over the lock file's format", () => {
  const files = { 'package.json': own({ packageManager: 'pnpm@10.4.1' }), 'pnpm-lock.yaml': `lockfileVersion: '9.0'\n` }
  expect(planOf(files).node?.packages.manager).toBe('pnpm@10.4.1')
})

test.each([
  ['allowBuilds:\n  sharp: true\n', 'pnpm@10'],
  ['packages:\n  - "apps/*"\n', 'pnpm@9'],
])('a pnpm-workspace.yaml that only has settings needs pnpm 10: %j', (workspace, manager) => {
  const files = {
    'package.json': own(),
    'pnpm-lock.yaml': `lockfileVersion: '9.0'\n`,
    'pnpm-workspace.yaml': workspace,
  }
  expect(planOf(files).node?.packages.manager).toBe(manager)
})

const lockOf = (root: object) => JSON.stringify({ lockfileVersion: 3, packages: { '': root } })

test.each([
  ['the same dependencies', { dependencies: { dayjs: '1' } }, 'npm ci'],
  ['a dependency that package.json has as another kind', { optionalDependencies: { dayjs: '1' } }, 'npm ci'],
  ['no dependency', {}, 'npm install'],
  ['another version', { dependencies: { dayjs: '0' } }, 'npm install'],
])('npm ci is chosen only if package-lock.json matches package.json: %s', (_, root, install) => {
  expect(planOf({ 'package.json': own(), 'package-lock.json': lockOf(root) }).install).toEqual([install])
})

test.each(['', JSON.stringify({ lockfileVersion: 1, dependencies: {} })])(
  'npm ci is chosen if package-lock.json does not list the dependencies of package.json: %j',
  text => {
    expect(planOf({ 'package.json': own(), 'package-lock.json': text }).install).toEqual(['npm ci'])
  },
)

test('of a large lock file, only the first part is compared with package.json', () => {
  const packages = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`node_modules/a${n}`, { version: '1' }]))
  const large = (root: object) =>
    JSON.stringify({ name: 'a "{', packages: { '': { name: '}"', ...root }, ...packages } }, null, 2)
  const planned = (root: object) =>
    planOf({ 'package.json': own(), 'package-lock.json': keptText('package-lock.json', large(root)) }).install
  expect(large({}).length).toBeGreaterThan(256 << 10)
  expect(planned({ dependencies: { dayjs: '1' } })).toEqual(['npm ci'])
  expect(planned({ dependencies: { dayjs: '2' } })).toEqual(['npm install'])
})

test.each(['{"packages": {"": {"dependencies":', '<<<<<<< ours', '{"packages": {"": {]}}'])(
  'npm ci is chosen if package-lock.json is not valid JSON, so that npm reports it: %j',
  text => {
    expect(planOf({ 'package.json': own(), 'package-lock.json': text }).install).toEqual(['npm ci'])
  },
)

test('a project without dependencies has an install step only if it has an install script', () => {
  const start = { start: 'node a.js' }
  const files = (scripts: object) => ({ 'package.json': JSON.stringify({ scripts }) })
  expect(planOf(files(start)).install).toEqual([])
  expect(planOf(files({ ...start, postinstall: 'node make.js' })).install).toEqual(['npm install'])
})
