/** Finds the regular expressions in the program, and reads which of them were found to take linear time. */
import { globSync, readFileSync } from 'node:fs'
import { parseAst } from 'rolldown/parseAst'

export interface RegexLiteral {
  readonly file: string
  readonly source: string
  readonly flags: string
}

/** File with the expressions that `npm run regexes` has found to take linear time, one per line. */
export const linearFile = 'test/support/linear-regexes.txt'

/**
 * Files with expressions that do not take linear time, each with the short or trusted text that they are applied to.
 */
export const exceptions: Readonly<Record<string, string>> = {
  'src/agent/build/failure-line.ts': 'lines are cut to 2000 characters before',
  'src/agent/disk/extents.ts': "output of the host's own program",
  'src/agent/guest/own-kernel.ts': "files of the host's own package",
  'src/agent/guest/tsc.ts': '/proc/cpuinfo',
  'src/agent/host-tools.ts': "version of the host's own program",
  'src/agent/hypervisor/firecracker/platform.ts': "version of the host's own program",
  'src/agent/hypervisor/qemu/guest-memory.ts': '/proc/<pid>/maps',
  'src/agent/image/base.ts': 'a few messages of umoci',
  'src/agent/image/postgres/recipe.ts': 'names of Debian packages',
  'src/cli/commands/database-connect.ts': 'a command that the platform wrote',
}

export const textOf = ({ source, flags }: Pick<RegexLiteral, 'source' | 'flags'>): string => `/${source}/${flags}`

/** Returns all regular expression literals below `src`, without tests. */
export function regexLiterals(): RegexLiteral[] {
  return globSync('src/**/*.ts', { exclude: ['**/*.test.ts', '**/generated/**', '**/*.d.ts'] })
    .toSorted()
    .flatMap(file => {
      const found: RegexLiteral[] = []
      visit(parseAst(readFileSync(file, 'utf8'), { lang: 'ts' }), regex => found.push({ file, ...regex }))
      return found
    })
}

function visit(node: unknown, onRegex: (found: Omit<RegexLiteral, 'file'>) => void): void {
  if (Array.isArray(node)) {
    for (const one of node) visit(one, onRegex)
    return
  }
  if (typeof node !== 'object' || node === null) return
  if ('regex' in node && typeof node.regex === 'object' && node.regex !== null) {
    const { pattern, flags } = Object(node.regex)
    return onRegex({ source: String(pattern), flags: String(flags) })
  }
  for (const one of Object.values(node)) visit(one, onRegex)
}

export const linearOnes = (): ReadonlySet<string> =>
  new Set(readFileSync(linearFile, 'utf8').split('\n').filter(Boolean))
