import { expect, test } from 'vitest'
import { planProject } from './plan/index.ts'
import { isPlanFile } from './plan/project.ts'
import { recipeOf } from './recipe.ts'
import { scripts } from './scripts.ts'

type Files = Readonly<Record<string, string>>

const recipeIn = (files: Files) =>
  recipeOf(
    planProject({
      paths: new Set(Object.keys(files)),
      texts: new Map(Object.entries(files).filter(([path]) => isPlanFile(path))),
    }),
  )
const startOf = (files: Files) => {
  const { output } = recipeIn(files)
  return output.kind === 'layer' ? output.config['Cmd'] : undefined
}

test.each([
  ['#!/bin/sh\n', 'exec sh start.sh'],
  ['#!/usr/bin/env bash\n', 'exec bash start.sh'],
])('a script that begins with %j runs in an image with its shell', (text, command) => {
  const recipe = recipeIn({ 'start.sh': text })
  expect(recipe).toMatchObject({ builder: 'builder', script: scripts.shell, output: { base: 'node' } })
  expect(startOf({ 'start.sh': text })).toEqual(['/bin/sh', '-c', command])
  expect(() => recipeIn({ 'start.sh': '#!/bin/zsh\n' })).toThrow(/has no zsh\. Use bash or sh in start\.sh/)
})

test.each([
  ['CMakeLists.txt', 'project(a)\nadd_executable(shop main.cc)\n', 'cpp', 'exec ./build/shop'],
  ['meson.build', `project('a', 'cpp')\nexecutable('shop', 'main.cc')\n`, 'cpp', 'exec ./build/shop'],
  ['deno.json', '{"tasks": {"start": "deno run main.ts"}}', 'deno', 'exec deno task start'],
] as const)('%s is built with its tool and runs in an image of Debian', (file, text, script, command) => {
  const recipe = recipeIn({ [file]: text })
  expect(recipe).toMatchObject({ builder: 'builder', script: scripts[script], output: { base: 'node' } })
  expect(startOf({ [file]: text })).toEqual(['/bin/sh', '-c', command])
})

test.each([
  [{}, 'deno@2'],
  [{ '.deno-version': '2.2.2\n' }, 'deno@2.2.2'],
])('the version of Deno comes from npm: %j', (files, DENO_PACKAGE) => {
  expect(recipeIn({ 'deno.json': '{}', 'main.ts': '', ...files }).env).toEqual({
    INSTALL: '',
    BUILD: 'deno cache main.ts',
    DENO_PACKAGE,
  })
})

test('a server of Astro listens where requests arrive', () => {
  const files = {
    'package.json': JSON.stringify({ scripts: { start: 'node dist/server/entry.mjs' }, dependencies: { astro: '5' } }),
  }
  const { output } = recipeIn(files)
  expect(output.kind === 'layer' ? output.config['Env'] : []).toContain('HOST=0.0.0.0')
})
