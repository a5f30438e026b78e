/** Reads typed values from trees, and collects errors and unsupported settings with their positions. */
import type { Fault, Place } from './faults.ts'
import { asMap } from './merge.ts'
import type { Tree } from './tree.ts'

/**
 * A setting that does not work as in Compose. `unsupported`: cannot work here, so nothing is deployed unless the user
 * skips it. `differs`: is ignored or works in another way, which is only reported.
 */
export interface Finding extends Fault {
  readonly level: 'unsupported' | 'differs'
}

export interface Reader {
  readonly findings: Finding[]
  /** Violations of the Compose Specification in the files. */
  readonly faults: Fault[]
}

export const newReader = (): Reader => ({ findings: [], faults: [] })

/** A value with its path, such as `services.web.build`. */
export interface Field {
  readonly reader: Reader
  readonly tree: Tree
  readonly path: string
}

export const faultOf = ({ reader, tree, path }: Field, message: string): void =>
  void reader.faults.push({ at: tree.at, field: path, message })
export const unsupported = ({ reader, tree, path }: Field, message: string): void =>
  void reader.findings.push({ level: 'unsupported', at: tree.at, field: path, message })
export const differs = ({ reader, tree, path }: Field, message: string): void =>
  void reader.findings.push({ level: 'differs', at: tree.at, field: path, message })

/** Returns the value of a key in a map; undefined if it is absent or null. */
export function member(field: Field | undefined, name: string): Field | undefined {
  if (!field) return undefined
  const value = field.tree.kind === 'map' ? field.tree.entries.get(name) : undefined
  if (!value || (value.kind === 'scalar' && value.value === null)) return undefined
  return { reader: field.reader, tree: value, path: `${field.path}.${name}` }
}

export function members(field: Field | undefined): (readonly [string, Field])[] {
  if (!field) return []
  if (field.tree.kind !== 'map') {
    faultOf(field, 'must be a map')
    return []
  }
  return [...field.tree.entries].map(([name, tree]) => [name, { ...field, tree, path: `${field.path}.${name}` }])
}

export function items(field: Field | undefined): Field[] {
  if (!field) return []
  if (field.tree.kind !== 'list') {
    faultOf(field, 'must be a list')
    return []
  }
  return field.tree.items.map((tree, at) => ({ ...field, tree, path: `${field.path}[${at}]` }))
}

/** Returns the items of a list; any other value is returned as the only item. */
export const oneOrMany = (field: Field | undefined): Field[] =>
  field?.tree.kind === 'list' ? items(field) : field ? [field] : []

export function text(field: Field | undefined): string | undefined {
  if (!field) return undefined
  if (field.tree.kind === 'scalar' && field.tree.value !== null) return field.tree.text
  faultOf(field, 'must be text')
  return undefined
}

export function flag(field: Field | undefined): boolean {
  if (!field) return false
  const { tree } = field
  // Accept text, too: when variables are replaced, as in "${DEBUG:-true}", the value becomes text.
  if (tree.kind === 'scalar' && ['true', 'false'].includes(tree.text)) return tree.text === 'true'
  faultOf(field, 'must be true or false')
  return false
}

export function number(field: Field | undefined, smallest = 0): number | undefined {
  const given = text(field)
  if (!field || given === undefined) return undefined
  const value = given.trim() === '' ? Number.NaN : Number(given)
  if (Number.isFinite(value) && value >= smallest) return value
  faultOf(field, `must be a number of at least ${smallest}`)
  return undefined
}

const units: Readonly<Record<string, number>> = { b: 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 }

/** Parses a size such as `512m`, `1.5gb` or 1048576, and returns it in bytes. */
export function bytes(field: Field | undefined): number | undefined {
  const given = text(field)
  if (!field || given === undefined) return undefined
  const [, amount, unit = 'b'] = /^(\d{1,15}(?:\.\d{1,6})?)\s*(?:([bkmgt])i?b?)?$/i.exec(given.trim()) ?? []
  if (amount !== undefined) return Number(amount) * (units[unit.toLowerCase()] ?? 1)
  faultOf(field, 'must be a size such as 512m or 2gb')
  return undefined
}

/** Returns the NAME=value pairs of a map or a list. The value of a name without one is null. */
export function pairs(field: Field | undefined): Map<string, Field & { readonly value: string | null }> {
  const found = new Map<string, Field & { readonly value: string | null }>()
  if (!field) return found
  const tree = asMap(field.tree)
  if (tree.kind !== 'map') {
    faultOf(field, 'must be a map or a list of NAME=value')
    return found
  }
  for (const [name, value] of tree.entries) {
    const one = { ...field, tree: value, path: `${field.path}.${name}` }
    if (value.kind !== 'scalar') faultOf(one, 'must be text')
    else found.set(name, { ...one, value: value.value === null ? null : value.text })
  }
  return found
}

/** Returns program and arguments from a list, or from a text that is split like a shell does. */
export function argv(field: Field | undefined): string[] | undefined {
  if (!field) return undefined
  if (field.tree.kind === 'list') return items(field).map(item => text(item) ?? '')
  const given = text(field)
  const words = given === undefined ? [] : splitWords(given)
  if (words) return words
  faultOf(field, 'has a quote that is not closed')
  return undefined
}

/** Splits a command line at spaces that are not quoted (POSIX 2.2). Returns undefined if a quote is not closed. */
export function splitWords(line: string): string[] | undefined {
  const words: string[] = []
  let word: string | undefined
  let quote = ''
  for (let at = 0; at < line.length; at++) {
    const one = line[at] ?? ''
    if (quote !== '') {
      if (one === quote) quote = ''
      else if (one === '\\' && quote === '"' && '"\\$`'.includes(line[at + 1] ?? ' ')) word += line[++at] ?? ''
      else word += one
    } else if (one === '"' || one === "'") {
      quote = one
      word ??= ''
    } else if (/\s/.test(one)) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else word = (word ?? '') + (one === '\\' ? (line[++at] ?? '') : one)
  }
  if (quote !== '') return undefined
  return word === undefined ? words : [...words, word]
}

/** Compares positions, to sort by file, line and column. */
export const byPlace = (a: { readonly at: Place }, b: { readonly at: Place }) =>
  a.at.file === b.at.file ? a.at.line - b.at.line || a.at.column - b.at.column : a.at.file < b.at.file ? -1 : 1
