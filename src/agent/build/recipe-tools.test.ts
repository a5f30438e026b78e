import { expect, test } from 'vitest'
import { planProject } from './plan/index.ts'
import { isDebianName, nodeNeeds, pythonNeeds } from './plan/debian.ts'
import { isPlanFile } from './plan/project.ts'
import { recipeOf } from './recipe.ts'
import { scripts } from './scripts.ts'
import { systemFiles } from './system-files.ts'

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
])('a script that begins with %j is started with that shell', (text, command) => {
  const recipe = recipeIn({ 'start.sh': text })
  expect(recipe).toMatchObject({ builder: 'builder', script: scripts.shell, output: { base: 'node' } })
  expect(startOf({ 'start.sh': text })).toEqual(['/bin/sh', '-c', command])
})

test.each([
  ['CMakeLists.txt', 'project(a)\nadd_executable(shop main.cc)\n', 'cpp', 'exec ./build/shop'],
  ['meson.build', `project('a', 'cpp')\nexecutable('shop', 'main.cc')\n`, 'cpp', 'exec ./build/shop'],
  ['deno.json', '{"tasks": {"start": "deno run main.ts"}}', 'deno', 'exec deno task start'],
] as const)(
  'a project with %s is built with its own tool and runs in a Debian image',
  (file, text, script, command) => {
    const recipe = recipeIn({ [file]: text })
    expect(recipe).toMatchObject({ builder: 'builder', script: scripts[script], output: { base: 'node' } })
    expect(startOf({ [file]: text })).toEqual(['/bin/sh', '-c', command])
  },
)

test.each([
  [{}, 'deno@2'],
  [{ '.deno-version': '2.2.2\n' }, 'deno@2.2.2'],
])('Deno is installed from npm in the version that the project names: %j', (files, DENO_PACKAGE) => {
  expect(recipeIn({ 'deno.json': '{}', 'main.ts': '', ...files }).env).toEqual({
    INSTALL: '',
    BUILD: 'deno cache main.ts',
    DENO_PACKAGE,
  })
})

test('an Astro server listens on all addresses', () => {
  const files = {
    'package.json': JSON.stringify({ scripts: { start: 'node dist/server/entry.mjs' }, dependencies: { astro: '5' } }),
  }
  const { output } = recipeIn(files)
  expect(output.kind === 'layer' ? output.config['Env'] : []).toContain('HOST=0.0.0.0')
})

const packagesIn = (files: Files) => {
  const { BUILD_PACKAGES, RUN_PACKAGES, BASE_PACKAGES } = recipeIn(files).env
  return { build: BUILD_PACKAGES, run: RUN_PACKAGES, base: BASE_PACKAGES }
}
const node = 'nodejs libatomic1 ca-certificates tzdata'

test.each([
  ['a script for zsh', { 'start.sh': '#!/bin/zsh\n' }, '', 'zsh', node],
  [
    'a Python project that draws',
    { 'main.py': '', 'requirements.txt': 'pycairo==1.27\n' },
    'libcairo2-dev',
    '',
    'python3',
  ],
  [
    'a Python project that opens PDFs',
    { 'main.py': '', 'requirements.txt': 'pdf2image\n' },
    '',
    'poppler-utils',
    'python3',
  ],
  ['a Python project with psycopg', { 'main.py': '', 'requirements.txt': 'psycopg[pool]\n' }, '', 'libpq5', 'python3'],
  [
    'a Node project with a browser',
    { 'package.json': '{"main": "a.js", "dependencies": {"puppeteer": "24"}}', 'a.js': '' },
    '',
    'chromium fonts-liberation',
    node,
  ],
  ['a Ruby project', { Gemfile: '', 'app.rb': '' }, 'ruby-dev', 'bundler libjemalloc2 ruby', node],
  ['an Elixir project', { 'mix.exs': 'app: :shop' }, 'elixir erlang-dev erlang-nox', '', node],
  [
    'a PHP project with packages',
    { 'index.php': '', 'composer.json': '{"require": {"a/b": "1"}}' },
    'composer',
    '',
    'php-cli',
  ],
])('%s gets the Debian packages that it needs', (_, files, build, run, base) => {
  expect(packagesIn(files)).toEqual({
    build: expect.stringMatching(new RegExp(`^${build}`)),
    run,
    base: expect.stringMatching(new RegExp(`^${base}`)),
  })
})

test.each([
  { 'main.py': '', 'requirements.txt': 'psycopg[binary]\npsycopg2-binary\n# pydub is not used\n' },
  { 'main.py': '', 'requirements.txt': 'graphviz-anywhere\n' },
  { 'package.json': '{"main": "a.js", "dependencies": {"puppeteer-core": "24"}}', 'a.js': '' },
  { 'index.php': '', 'composer.json': '{"require": {"php": "^8.2", "ext-gd": "*"}}' },
  { 'start.sh': '#!/bin/bash\n' },
])('a project whose dependencies need no Debian packages gets none: %j', files => {
  expect(packagesIn(files)).toEqual({ build: undefined, run: undefined, base: undefined })
})

test.each(Object.entries({ ...pythonNeeds, ...nodeNeeds }))('the packages for %s are names of Debian', (_, needs) => {
  const names = [...(needs.build ?? []), ...(needs.run ?? [])]
  expect(names.length).toBeGreaterThan(0)
  expect(names.filter(name => !isDebianName(name))).toEqual([])
})

test("Puppeteer uses Debian's Chromium instead of downloading a browser", () => {
  const { env, output } = recipeIn({
    'package.json': '{"main": "a.js", "dependencies": {"puppeteer": "24"}}',
    'a.js': '',
  })
  expect(env['PUPPETEER_SKIP_DOWNLOAD']).toBe('true')
  expect(output.kind === 'layer' ? output.config['Env'] : []).toContain('PUPPETEER_EXECUTABLE_PATH=/usr/bin/chromium')
})

/** One project per language. The test adds a Debian package for the app's image to each. */
const languages: Readonly<Record<string, Files>> = {
  cpp: { 'CMakeLists.txt': 'project(a)\nadd_executable(shop main.cc)\n' },
  deno: { 'deno.json': '{}', 'main.ts': '' },
  elixir: { 'mix.exs': 'app: :shop' },
  go: { 'go.mod': 'module a\n', 'main.go': '' },
  java: { 'pom.xml': '' },
  node: { 'package.json': '{"main": "a.js"}', 'a.js': '' },
  php: { 'index.php': '' },
  python: { 'main.py': '' },
  ruby: { Gemfile: '', 'app.rb': '' },
  rust: { 'Cargo.toml': '[package]\nname = "a"\n', 'src/main.rs': '' },
  shell: { 'start.sh': '' },
}
test.each(Object.entries(languages))(
  'a Debian package for the image of a %s project is installed, or refused if the image cannot contain it',
  (_, files) => {
    const named = { ...files, 'railpack.json': '{"deploy": {"aptPackages": ["jq"]}}' }
    const isRefused = ['go.mod', 'pom.xml'].some(file => file in files)
    if (isRefused) expect(() => recipeIn(named)).toThrow('has no place for Debian packages (jq)')
    else expect(recipeIn(named).script).toContain(systemFiles)
  },
)

test.each([
  ['package-lock.json', 'cd b && npx next start'],
  ['pnpm-lock.yaml', 'cd b && next start'],
  ['bun.lock', 'cd b && next start'],
  ['yarn.lock', 'cd b && next start'],
])('npx is removed from the start command unless the project uses npm: %s', (lock, line) => {
  const own = { scripts: { start: 'cd b && npx next start' }, dependencies: { next: '15' } }
  expect(startOf({ 'package.json': JSON.stringify(own), [lock]: '' })).toEqual(['/bin/sh', '-c', line])
})
