/** Formats the output of commands: text by default, JSON with `--json`. These functions only return text. */
import { printableLine } from '../lib/printable.ts'
import { pc } from '../programs/colours.ts'

/** Columns narrower than this number of characters are not cut. */
const narrowest = 12

/**
 * Formats rows as aligned columns; the first row is the head.
 * @param room width of the terminal; undefined without a terminal
 */
export function table(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
  room = process.stdout.isTTY ? process.stdout.columns : undefined,
): string {
  const lines = [head.map(cell => pc.bold(cell)), ...rows.map(row => row.map(inOneLine))]
  const natural = head.map((_, at) => Math.max(...lines.map(line => visible(line[at] ?? '').length)))
  const isCopied = head.map((_, at) => rows.some(row => identifier.test(String(row[at] ?? ''))))
  const widths = fitted(natural, isCopied, room)
  return lines
    .map(line =>
      line
        .map((cell, at) => cut(cell, widths[at] ?? 0))
        .map((cell, at) => cell + ' '.repeat(Math.max(0, (widths[at] ?? 0) - visible(cell).length)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** Pattern of ids. They are never cut, because users copy them into other commands. */
const identifier = /^(?:job-[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27})$/

/** Narrows the widest columns until the rows fit; if columns with ids are too wide, the terminal wraps the lines. */
function fitted(natural: readonly number[], isCopied: readonly boolean[], room: number | undefined): readonly number[] {
  const widths = [...natural]
  const total = () => widths.reduce((sum, width) => sum + width, 0) + 2 * (widths.length - 1)
  while (room !== undefined && total() > room) {
    const cuttable = widths.map((width, at) => (isCopied[at] ? 0 : width))
    const widest = Math.max(...cuttable)
    if (widest <= narrowest) break
    widths[cuttable.indexOf(widest)] = widest - 1
  }
  return widths
}

/** Shortens a cell to the given width. Colored cells are not cut, because they are short status words. */
const cut = (cell: string, width: number) =>
  cell.length > width && visible(cell) === cell ? `${cell.slice(0, Math.max(1, width - 1))}…` : cell

/** Formats a table; returns the given text if the list is empty. */
export const listing = (head: readonly string[], rows: readonly (readonly (string | number)[])[], empty: string) =>
  rows.length === 0 ? empty : table(head, rows)

/** Formats `name  value` lines, without null and empty values. */
export function facts(pairs: Readonly<Record<string, string | number | boolean | null | undefined>>): string {
  const given = Object.entries(pairs).filter(([, value]) => value !== null && value !== undefined && value !== '')
  const width = Math.max(...given.map(([name]) => name.length))
  return given.map(([name, value]) => `${pc.dim(name.padEnd(width))}  ${inOneLine(String(value))}`).join('\n')
}

/** Formats the time since an instant: `3s`, `12m`, `5h`, `8d`; `never` if there is no instant. */
export function age(instant: string | null | undefined, nowMs = Date.now()): string {
  if (!instant) return 'never'
  const seconds = Math.max(0, Math.round((nowMs - Date.parse(instant)) / 1000))
  if (seconds < 120) return `${seconds}s`
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

export function bytes(count: number): string {
  const power = count < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(count) / 10))
  const value = count / 1024 ** power
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[power]}`
}

const colours: Readonly<Record<string, (text: string) => string>> = {
  running: pc.green,
  ready: pc.green,
  active: pc.green,
  online: pc.green,
  verified: pc.green,
  failed: pc.red,
  unavailable: pc.red,
  unhealthy: pc.red,
  lost: pc.red,
  superseded: pc.dim,
  stopped: pc.dim,
  deleted: pc.dim,
  cancelled: pc.dim,
}

/** Colors a status: green is healthy, red needs attention, dim is finished, yellow is in progress. */
export const status = (value: string) => (colours[value] ?? pc.yellow)(value)

/** Removes color codes (ECMA-48 SGR) from a text, to measure its width. */
const visible = (text: string) => text.replaceAll(new RegExp(`${String.fromCharCode(27)}\\[\\d+m`, 'g'), '')

/**
 * Replaces line breaks, so that a value cannot start another row. Color codes remain, because `status` sets them.
 * `terminal.ts` escapes all other control characters.
 */
const inOneLine = (cell: string | number) => String(cell).replaceAll(/[\r\n]+/g, line => printableLine(line))
