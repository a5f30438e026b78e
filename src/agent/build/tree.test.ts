import { expect, test } from 'vitest'
import { planProject } from './plan/index.ts'
import { recipeOf } from './recipe.ts'
import { readTree } from './tree.ts'

const source = (files: Readonly<Record<string, string>>) => ({
  list: async () => Object.keys(files),
  read: async (path: string) => files[path],
  archive: async () => undefined,
})

test('files below the top are read for the build plan', async () => {
  const tree = await readTree(
    source({
      'Cargo.toml': '[workspace]\nmembers = ["web"]\n',
      'web/Cargo.toml': '[package]\nname = "shop"\n',
      'web/src/main.rs': '',
    }),
  )
  expect(planProject(tree).start).toBe('./bin/shop')
})

test('a Go program in the directory cmd is built', async () => {
  const tree = await readTree(source({ 'go.mod': 'module a\n', 'cmd/shop/main.go': '' }))
  expect(recipeOf(planProject(tree)).env['BUILD']).toContain('-o out ./cmd/shop')
})

test('files at the top are read for the build plan, even in a monorepo with many packages', async () => {
  const below = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`a/${n}/package.json`, '{}']))
  const { paths, texts } = await readTree(source({ ...below, 'go.mod': 'module a\n' }))
  expect(paths.size).toBe(1001)
  expect(texts.size).toBe(200)
  expect(texts.get('go.mod')).toBe('module a\n')
})

test('files in very deep directories do not influence the build plan', async () => {
  const { paths } = await readTree(source({ 'a.txt': '', [`${'a/'.repeat(9)}b.txt`]: '' }))
  expect([...paths]).toEqual(['a.txt'])
})
