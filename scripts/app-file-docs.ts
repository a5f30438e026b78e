/** Writes the list of keys in docs/mote-toml.md from the schema of mote.toml: `node scripts/app-file-docs.ts`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AppFile } from '../src/appfile/schema.ts'

interface Shape {
  readonly type?: string
  readonly enum?: readonly unknown[]
  readonly default?: unknown
  readonly description?: string
  readonly examples?: readonly unknown[]
  readonly minimum?: number
  readonly maximum?: number
  readonly properties?: Readonly<Record<string, Shape>>
  readonly patternProperties?: Readonly<Record<string, Shape>>
  readonly required?: readonly string[] | undefined
  readonly items?: Shape
}

/** The JSON Schema of mote.toml as plain JSON, as it is published for editors. */
const schema: Shape = JSON.parse(JSON.stringify(AppFile))
const page = join(import.meta.dirname, '..', 'docs', 'mote-toml.md')
const start = '## Keys\n'

/** Returns the text of docs/mote-toml.md with an up-to-date list of keys. */
export function currentPage(): string {
  const text = readFileSync(page, 'utf8')
  const [before = ''] = text.split(start)
  return `${before}${start}\n${tablesOf(schema, '').join('\n\n')}\n`
}

/** Returns Markdown tables: one for the keys of this TOML table, then one for each nested TOML table. */
function tablesOf(shape: Shape, path: string): string[] {
  const keys = Object.entries(shape.properties ?? {})
  const rows = keys.map(
    ([name, one]) => `| \`${name}\` | ${typeOf(one)} | ${defaultOf(shape, name, one)} | ${meaningOf(one)} |`,
  )
  const head = '| key | value | default | meaning |\n|---|---|---|---|'
  const below = keys.flatMap(([name, one]) => {
    const inner = path === '' ? name : `${path}.${name}`
    if (one.items?.properties) return [`### \`[[${inner}]]\``, ...tablesOf(one.items, inner)]
    if (!one.properties) return namedTables(one, inner)
    // A TOML table that contains only other tables has no keys to list.
    const groups = Object.values(one.properties).every(each => each.properties)
    return groups ? tablesOf(one, inner).slice(1) : [`### \`[${inner}]\``, ...tablesOf(one, inner)]
  })
  return [`${head}\n${rows.join('\n')}`, ...below, ...namedTables(shape, path)]
}

/** Returns Markdown tables for nested TOML tables whose names the user chooses. */
const namedTables = (shape: Shape, path: string): string[] =>
  Object.values(shape.patternProperties ?? {})
    .filter(one => one.properties)
    .flatMap(one => [`### \`[${path}.<name>]\``, one.description ?? '', ...tablesOf(one, `${path}.<name>`)])

function typeOf(one: Shape): string {
  if (one.items) return one.items.properties ? 'tables' : 'list of texts'
  if (one.enum) return one.enum.join(', ')
  const named = Object.values(one.patternProperties ?? {})
  if (named.length > 0 && !one.properties) return named.some(each => each.properties) ? 'tables' : 'table of texts'
  if (one.properties || named.length > 0) return 'table'
  const range = one.minimum !== undefined && one.maximum !== undefined ? `, ${one.minimum} to ${one.maximum}` : ''
  if (one.type === 'integer' || one.type === 'number') return `number${range}`
  return one.type === 'boolean' ? '`true` or `false`' : 'text'
}

function defaultOf(parent: Shape, name: string, one: Shape): string {
  if (parent.required?.includes(name)) return 'required'
  const isEmpty = typeof one.default === 'object' && Object.keys(one.default ?? {}).length === 0
  return one.default === undefined || isEmpty ? '' : `\`${JSON.stringify(one.default)}\``
}

function meaningOf({ description = '', examples: [example] = [] }: Shape): string {
  const shown =
    typeof example === 'string' || typeof example === 'number' ? ` Example: \`${JSON.stringify(example)}\`` : ''
  return `${description}${shown}`
}

if (process.argv[1] === import.meta.filename) writeFileSync(page, currentPage())
