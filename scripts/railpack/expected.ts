/**
 * Reads the plan that Railpack's snapshot and test of an example expect, and converts it to the form of Mote's plans.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { objectOr, stringOr, plainJson } from '../../src/agent/build/plan/project.ts'
import { type ProviderName, type ToolName, toolNames } from '../../src/agent/build/plan/types.ts'

export interface Expected {
  readonly provider: ProviderName
  readonly tools: readonly ToolName[]
  /** Versions that the example's program should print, by tool. */
  readonly versions: ReadonlyMap<ToolName, string>
  /** Commands of the plan that install dependencies and build the app, in order. */
  readonly commands: readonly string[]
  readonly start: string
  readonly staticDir: string | null
  /** The port to which the test sends its request if PORT is not set. */
  readonly port: number | null
}

const listOr = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
const read = (path: string): unknown => JSON.parse(plainJson(readFileSync(path, 'utf8')))

/** Provider by tool: the first tool of this list that an example installs determines the provider. */
const providerTools = [
  ['go', 'go'],
  ['java', 'java'],
  ['rust', 'rust'],
  ['ruby', 'ruby'],
  ['elixir', 'elixir'],
  ['deno', 'deno'],
  ['dotnet', 'dotnet'],
  ['gleam', 'gleam'],
  ['cmake', 'cpp'],
  ['meson', 'cpp'],
  ['node', 'node'],
  ['bun', 'node'],
  ['python', 'python'],
] as const satisfies readonly (readonly [string, ProviderName])[]

export function readExpected(root: string, example: string): Expected {
  const snapshot = objectOr(
    read(join(root, 'core/__snapshots__', `TestGenerateBuildPlanForExamples_${example}_1.snap.json`)),
  )
  const steps = listOr(snapshot['steps']).map(objectOr)
  const deploy = objectOr(snapshot['deploy'])
  const packages = packagesOf(steps)
  const start = stringOr(deploy['startCommand']) ?? ''
  const staticDir = /\bcaddy run\b/.test(start) ? siteOf(steps) : null
  const tests = listOr(read(join(root, 'examples', example, 'test.json'))).map(objectOr)
  return {
    provider: providerOf(steps, packages, staticDir),
    tools: toolNames.filter(tool => packages.has(tool)),
    versions: versionsOf(tests),
    commands: steps.filter(({ name }) => !isToolStep(stringOr(name))).flatMap(commandsOf),
    start: staticDir === null ? start : '',
    staticDir,
    port: portOf(tests),
  }
}

/** Names of Railpack's steps to skip, because they only install tools, PHP extensions or the web server. */
const isToolStep = (name = '') => name === 'caddy' || name === 'extensions' || name.startsWith('packages:')

function packagesOf(steps: readonly Record<string, unknown>[]): ReadonlySet<string> {
  const named = steps
    .flatMap(step => listOr(step['commands']).map(objectOr))
    .flatMap(command => /^install mise packages: (.+)$/.exec(stringOr(command['customName']) ?? '')?.[1] ?? [])
  return new Set(named.flatMap(names => names.split(', ')).map(name => name.replace('pipx:', '')))
}

function providerOf(
  steps: readonly Record<string, unknown>[],
  packages: ReadonlySet<string>,
  staticDir: string | null,
): ProviderName {
  if (steps.some(({ name }) => name === 'prepare')) return 'php'
  const found = providerTools.find(([tool]) => packages.has(tool))
  return found?.[1] ?? (staticDir === null ? 'shell' : 'static')
}

/** Returns the directory of a static site, from `root * /app/dist` in the web server's configuration. */
function siteOf(steps: readonly Record<string, unknown>[]): string {
  const texts = steps.flatMap(step => Object.values(objectOr(step['assets']))).map(text => stringOr(text) ?? '')
  const dir = texts.map(text => /^\s*root \* (\S+)$/m.exec(text)?.[1]).find(found => found !== undefined)
  return (dir ?? '.').replace(/^\/app\/?/, '').replace(/\/$/, '') || '.'
}

const commandsOf = (step: Record<string, unknown>): string[] =>
  listOr(step['commands']).flatMap(command => stringOr(objectOr(command)['cmd']) ?? [])

const outputs = [
  ['node', /\bnode(?:\.js)?(?: version:?| v:)? v?(\d[\d.]*)/i],
  ['pnpm', /\bpnpm version[^:]*: v?(\d[\d.]*)/i],
  ['yarn', /\byarn (\d[\d.]*)/i],
  ['bun', /\bbun (\d[\d.]*)/i],
  ['python', /\bpython(?: version:)? (\d[\d.]*)/i],
  ['uv', /\buv(?: version:)? (\d[\d.]*)/i],
  ['go', /\bgo(\d[\d.]*)/i],
  ['rust', /\brustc (\d[\d.]*)/i],
  ['ruby', /\bruby(?: version)?: (\d[\d.]*)/i],
  ['deno', /\bdeno (\d[\d.]*)/i],
] as const satisfies readonly (readonly [ToolName, RegExp])[]

/**
 * Returns whether a test sets variables of Railpack or mise that select versions. Then the snapshot does not have the
 * versions that the program prints.
 */
const choosesVersion = (test: Record<string, unknown>) =>
  Object.keys(objectOr(test['envs'])).some(name => /^(?:RAILPACK_\w+_VERSION|MISE_)/.test(name))

function versionsOf(tests: readonly Record<string, unknown>[]): ReadonlyMap<ToolName, string> {
  const lines = tests
    .filter(test => !choosesVersion(test) && test['configFile'] === undefined)
    .flatMap(test => [test['expectedOutput'], objectOr(test['httpCheck'])['expectedOutput']].flat())
    .map(line => stringOr(line) ?? '')
  const found = outputs.flatMap(([tool, pattern]) => {
    const version = lines.map(line => pattern.exec(line)?.[1]).find(one => one !== undefined)
    return version === undefined ? [] : [[tool, version.replace(/\.$/, '')] as const]
  })
  return new Map<ToolName, string>(found)
}

function portOf(tests: readonly Record<string, unknown>[]): number | null {
  const ports = tests.map(test => objectOr(test['httpCheck'])['internalPort'])
  const port = ports.find(one => typeof one === 'number')
  return typeof port === 'number' ? port : null
}

export interface AppTest {
  /** Text that the program should print; undefined if the test expects no text. */
  readonly output: string | undefined
  readonly path: string
  readonly env: Readonly<Record<string, string>>
}

/** Returns the first test of an app; if the app has no `test.json`, a test that requests `/`. */
export function testOf(dir: string): AppTest {
  const file = join(dir, 'test.json')
  const test = objectOr(listOr(existsSync(file) ? read(file) : [])[0])
  const env = Object.entries(objectOr(test['envs'])).filter(([name]) => !name.startsWith('RAILPACK_'))
  const output = listOr(test['expectedOutput'])[0] ?? test['expectedOutput']
  return {
    output: stringOr(output) ?? undefined,
    path: stringOr(objectOr(test['httpCheck'])['path']) ?? '/',
    env: Object.fromEntries(env.map(([name, value]) => [name, String(value)])),
  }
}
