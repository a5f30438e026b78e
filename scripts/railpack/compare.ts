/** Compares a build plan of Mote with the plan that Railpack makes for the same app. */
import type { BuildPlan, ToolName, ToolVersion } from '../../src/agent/build/plan/types.ts'
import type { Expected } from './expected.ts'

/**
 * Commands of Railpack to ignore, because they only prepare Railpack's builder: caches, directories of tools, a
 * separate layer for dependencies.
 */
const scaffolding = [
  /^mkdir /,
  /^pnpm add -g node-gyp$/,
  /corepack prepare/,
  /^python -m venv /,
  /^uv sync .*--no-install-project$/,
  /^rm -rf src target\//,
  /^npm prune /,
  /^caddy fmt /,
  /^chmod \+x start\.sh$/,
  // Ignore the installation of a specific Bundler: Mote uses Debian's, which can read lock files of older versions.
  /^gem install -N bundler:/,
  // Ignore `cargo fetch`: the build command fetches the same crates.
  /^cargo fetch$/,
]

/**
 * Replacements that make equivalent commands equal. They are equivalent in Mote's builder, which works in one
 * directory and always sets PORT.
 */
const spellings: readonly (readonly [RegExp, string])[] = [
  [/\$\{PORT:-\d+\}/g, '$PORT'],
  [/^sh -c '(.*)'$/, '$1'],
  [/^npm ci$/, 'npm install'],
  // Environment variables set in front of a command.
  [/^export \w+='[^']*'; /, ''],
  [/^yarn install --check-cache$/, 'yarn install --immutable'],
  [/\bnpx nx /, 'nx '],
  [/\bnpx next start -p \$PORT/, 'next start'],
  [/ -trimpath/, ''],
  [/\/app\/_build/g, '_build'],
  [/^\.?\/build\//, 'build/'],
  [/^cmake -B \/?build -GNinja.*$/, 'cmake -B build'],
  [/^cmake --build \/build$/, 'cmake --build build'],
  [/^meson setup \/?build.*$/, 'meson setup build'],
  [/^meson compile -C \/build$/, 'meson compile -C build'],
  [/ -DoutputFile=\S+| dependency:list/g, ''],
  [/^(cp target\/release\/\S+) bin\/?$/, '$1 bin'],
  // Railpack sets the address of a Rocket server in the image, Mote in the start command.
  [/^(?:ROCKET_\w+=\S+ )+/, ''],
  [/\s+/g, ' '],
]

export const spelled = (command: string) =>
  spellings.reduce((text, [pattern, word]) => text.replace(pattern, word), command).trim()

const commandsOf = (commands: readonly string[]) =>
  commands
    .map(spelled)
    .filter(command => !scaffolding.some(pattern => pattern.test(command)))
    // Railpack runs the same cargo command twice: first with an empty program, to compile only the dependencies.
    .filter((command, n, all) => !command.startsWith('cargo ') || all.indexOf(command) === n)

/** Install commands that Mote leaves out if a project has no dependencies. */
const emptyInstall = /^(?:npm|pnpm|yarn|bun) install\b/

/** Compares Mote's plan with Railpack's. @returns a phrase for each difference; empty if the plans are equivalent */
export function differences(plan: BuildPlan, expected: Expected): string[] {
  const own = commandsOf([...plan.install, ...plan.build])
  const isEmpty = plan.provider === 'node' && plan.install.length === 0
  const theirs = commandsOf(expected.commands).filter(command => !isEmpty || !emptyInstall.test(command))
  const missing = theirs.filter(one => !own.includes(one))
  const more = own.filter(one => !theirs.includes(one))
  const start = plan.staticDir === null ? spelled(plan.start ?? '') : ''
  return [
    ...(plan.provider === expected.provider ? [] : [`provider ${plan.provider}, expected ${expected.provider}`]),
    ...toolDifferences(plan.tools, expected),
    ...missing.map(command => `lacks \`${command}\``),
    ...more.map(command => `adds \`${command}\``),
    ...(missing.length + more.length > 0 || own.join('\n') === theirs.join('\n')
      ? []
      : [`runs \`${own.join('; ')}\`, expected \`${theirs.join('; ')}\``]),
    ...(start === spelled(expected.start) ? [] : [`starts \`${start}\`, expected \`${spelled(expected.start)}\``]),
    ...(plan.staticDir === expected.staticDir
      ? []
      : [`serves ${plan.staticDir ?? 'no directory'}, expected ${expected.staticDir ?? 'none'}`]),
    ...(plan.port === null || plan.port === expected.port ? [] : [`port ${plan.port}, expected ${expected.port}`]),
  ]
}

/**
 * Tools that Railpack's plans omit, because they come with another tool: npm comes with Node, pnpm and yarn with
 * corepack, PHP with its image.
 */
const unlisted: readonly ToolName[] = ['npm', 'php', 'pnpm', 'yarn']
/**
 * Tools that replace a tool of Railpack's plan: Mote runs pdm and pipenv with pip, Railpack with uv; Railpack runs bun
 * without Node.
 */
const helpers: Readonly<Partial<Record<ToolName, readonly ToolName[]>>> = {
  uv: ['pdm', 'pipenv'],
  node: ['bun'],
  python: [],
}

function toolDifferences(tools: readonly ToolVersion[], expected: Expected): string[] {
  const own = new Map(tools.map(one => [one.tool, one]))
  const stands = (tool: ToolName, names: ReadonlySet<ToolName>) =>
    names.has(tool) || (helpers[tool] ?? []).some(helper => names.has(helper))
  const theirs = new Set(expected.tools)
  const missing = expected.provider === 'cpp' ? [] : expected.tools.filter(tool => !stands(tool, new Set(own.keys())))
  const more = [...own.keys()].filter(tool => !stands(tool, theirs) && !unlisted.includes(tool))
  const versions = [...expected.versions].flatMap(([tool, printed]) => {
    const found = own.get(tool)
    return found === undefined || admits(found.version, printed)
      ? []
      : [`${tool} ${found.version}, expected ${printed}`]
  })
  return [...missing.map(tool => `lacks ${tool}`), ...more.map(tool => `adds ${tool}`), ...versions]
}

/** Returns whether a plan's version or range of a tool includes the version that the built program should print. */
export function admits(wanted: string, printed: string): boolean {
  if (!/\d/.test(wanted)) return true
  return wanted
    .split('||')
    .some(range => [...range.matchAll(/(>=|<=|==|~=|[<>^~]?)\s*v?(\d[\w.*]*)/g)].every(part => allows(part, printed)))
}

function allows([, operator = '', bound = '']: readonly string[], printed: string): boolean {
  const limit = bound
    .split('.')
    .filter(part => /^\d+$/.test(part))
    .map(Number)
  const own = printed.split('.').map(Number)
  const n = Math.min(limit.length, own.length)
  const at = [...Array(n).keys()].find(index => limit[index] !== own[index])
  const order = at === undefined ? 0 : (own[at] ?? 0) - (limit[at] ?? 0)
  const kept = operator === '^' ? 1 : operator === '~' || operator === '~=' ? 2 : n
  if (operator === '>=' || operator === '>') return order >= 0
  if (operator === '<=') return order <= 0
  if (operator === '<') return order < 0
  return at === undefined || (at >= kept && order >= 0)
}
