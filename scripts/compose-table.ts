/**
 * Converts the compose files in the folders to Mote's plans and lists what is not supported:
 * `node scripts/compose-table.ts <folder>...`.
 */
import { localFiles } from '../src/cli/compose-files.ts'
import { Invalid } from '../src/compose/faults.ts'
import { readStack } from '../src/stack/source.ts'
import { type CatalogStack, stacksOf } from './compose/catalogs.ts'

interface Row {
  readonly name: string
  readonly services: number
  readonly refusals: readonly string[]
  readonly differences: readonly string[]
}

const noteOf = ({ at, field, message }: Invalid['faults'][number]) =>
  `${at.file.split('/').at(-1)}:${at.line} ${field} ${message}`

async function rowOf({ name, paths, files, environment }: CatalogStack): Promise<Row> {
  const source = { paths, files, environment, name: 'stack', folder: 'stack', profiles: ['*'], again: '' }
  try {
    const { services, findings } = await readStack(source)
    const [refused, other] = [findings.filter(one => one.level === 'unsupported'), findings]
    // Ignore variables without a value: the platform for which a compose file was written asks its users for the values.
    const differ = other.filter(one => one.level === 'differs' && !one.message.startsWith('is not set'))
    return { name, services: services.length, refusals: refused.map(noteOf), differences: differ.map(noteOf) }
  } catch (error) {
    if (!(error instanceof Invalid)) throw error
    return { name, services: 0, refusals: error.faults.map(noteOf), differences: [] }
  }
}

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ')

/** Returns the numbers of accepted and refused stacks, and a Markdown table with a row for each refused stack. */
export async function composeTable(root: string): Promise<string> {
  const rows: Row[] = []
  for (const stack of stacksOf(root, localFiles)) rows.push(await rowOf(stack))
  const planned = rows.filter(({ refusals }) => refusals.length === 0)
  const plain = planned.filter(({ differences }) => differences.length === 0)
  const lines = rows
    .filter(({ refusals }) => refusals.length > 0)
    .map(({ name, refusals }) => `| ${name} | ${cell(refusals.join('; '))} |`)
  const counts = `${planned.length} of ${rows.length} are planned, ${plain.length} of them without a difference.`
  return [counts, '', '| refused | why |', '|---|---|', ...lines, ''].join('\n')
}

/** Counts how often each message occurs, which shows maintainers what to support next. */
export async function composeClasses(root: string): Promise<string> {
  const counts = new Map<string, number>()
  for (const stack of stacksOf(root, localFiles)) {
    const { refusals, differences } = await rowOf(stack)
    const classOf = (note: string) => note.replace(/^\S+ \S+ /, '').replaceAll(/"[^"]*"|\b\S*[./_\d:]\S*\b|\/\S*/g, '…')
    const all = [
      ...refusals.map(note => `refused: ${classOf(note)}`),
      ...differences.map(note => `differs: ${classOf(note)}`),
    ]
    for (const one of new Set(all)) counts.set(one, (counts.get(one) ?? 0) + 1)
  }
  const sorted = [...counts].sort(([, a], [, b]) => b - a)
  return `${sorted.map(([one, n]) => `${String(n).padStart(5)} ${one.slice(0, 200)}`).join('\n')}\n`
}

if (import.meta.main) {
  const [first, ...more] = process.argv.slice(2)
  if (first === undefined) throw new Error('Usage: node scripts/compose-table.ts [--classes] <folder>...')
  const write = first === '--classes' ? composeClasses : composeTable
  for (const root of first === '--classes' ? more : [first, ...more]) process.stdout.write(await write(root))
}
