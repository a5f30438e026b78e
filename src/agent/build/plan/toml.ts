/**
 * A key and its value in a TOML file. Parses only the simple part of TOML that version files use: tables, and values on
 * one line.
 */
export interface TomlLine {
  readonly table: string
  readonly key: string
  /** The value: strings without their quotes, arrays and inline tables as they are written. */
  readonly value: string
  readonly line: number
}

const header = /^\[+([^[\]]+)\]/
const entry = /^("?[\w.@:/-]+"?)\s*=\s*(\S.*)$/
const quoted = /^(?:"((?:[^"\\]|\\.)*)"|'([^']*)')/

export function readToml(text: string): readonly TomlLine[] {
  const lines: TomlLine[] = []
  let table = ''
  for (const [index, raw] of text.split(/\r?\n/).entries()) {
    const line = raw.trim()
    const name = header.exec(line)?.[1]
    if (name !== undefined && !line.includes('=')) {
      table = name.trim().replaceAll('"', '')
      continue
    }
    const [, key = '', value = ''] = entry.exec(line) ?? []
    if (key !== '') lines.push({ table, key: key.replaceAll('"', ''), value: valueOf(value), line: index + 1 })
  }
  return lines
}

function valueOf(value: string): string {
  const [whole, double, single] = quoted.exec(value) ?? []
  return whole === undefined ? (value.split(' #', 1)[0] ?? '').trim() : (double ?? single ?? '')
}

export const tomlValue = (lines: readonly TomlLine[], table: string, key: string): TomlLine | undefined =>
  lines.find(line => line.table === table && line.key === key)
