/** Parses YAML into a tree whose nodes have positions. The file is untrusted: size, depth and aliases are limited. */
import { type Alias, isAlias, isMap, isScalar, LineCounter, type Node, parseAllDocuments } from 'yaml'
import { asMap } from './merge.ts'
import { type Fault, Invalid, type Place } from './faults.ts'

export interface Scalar {
  readonly kind: 'scalar'
  readonly at: Place
  readonly value: string | number | boolean | null
  /** The value as written in the file, without quotes: `0644` and `1.10` are not converted to numbers. */
  readonly text: string
}
export interface List {
  readonly kind: 'list'
  readonly at: Place
  readonly items: readonly Tree[]
}
export interface Mapping {
  readonly kind: 'map'
  readonly at: Place
  /** The entries are a Map instead of an object, because a key in the file may be the name of a prototype member. */
  readonly entries: ReadonlyMap<string, Tree>
}
export type Tree = Scalar | List | Mapping

/** Limit on the file size: ten times the size of large public compose files. */
export const mostFileBytes = 262_144
const mostDepth = 50
/** Maximum number of nodes in a tree, counted after expanding aliases. */
const mostNodes = 50_000

/** Parses a YAML file. @param file name of the file, for error messages @throws Invalid */
export function readTree(text: string, file: string): Tree {
  const start: Place = { file, line: 1, column: 1 }
  if (new TextEncoder().encode(text).length > mostFileBytes)
    throw new Invalid([fault(start, `The file exceeds the limit of ${mostFileBytes / 1024} KiB`)])
  const lines = new LineCounter()
  // `uniqueKeys` is off, because it compares each key of a map with all others. `mapOf` finds repeated keys faster.
  const documents = parseAllDocuments(text, { lineCounter: lines, uniqueKeys: false, prettyErrors: false })
  const [document, second] = [...documents]
  if (!document) throw new Invalid([fault(start, 'The file is empty')])
  const placeOf = (offset: number): Place => {
    const { line, col } = lines.linePos(offset)
    return { file, line, column: col }
  }
  const [error] = document.errors
  if (error) {
    const isDeep = error.message.includes('call stack')
    throw new Invalid([
      fault(
        placeOf(error.pos[0]),
        isDeep ? 'The file is nested too deeply' : `This is not valid YAML: ${error.message}`,
      ),
    ])
  }
  if (second) throw new Invalid([fault(placeOf(second.range[0]), 'The file must have one document')])
  if (!document.contents) throw new Invalid([fault(start, 'The file is empty')])
  return convert(document.contents, { placeOf, anchors: new Map(), nodes: 0 }, 0)
}

const fault = (at: Place, message: string): Fault => ({ at, field: '', message })

interface Conversion {
  readonly placeOf: (offset: number) => Place
  /**
   * The tree of each YAML anchor, added when it is complete. An alias inside its own anchor is therefore unknown, so
   * that no tree is infinite.
   */
  readonly anchors: Map<string, Tree>
  nodes: number
}

function convert(node: Node, conversion: Conversion, depth: number): Tree {
  const at = conversion.placeOf(node.range?.[0] ?? 0)
  if (depth > mostDepth) throw new Invalid([fault(at, `The file is nested more than ${mostDepth} levels deep`)])
  count(conversion, at, 1)
  if (isAlias(node)) return aliased(node, conversion, at)
  const tree = treeOf(node, conversion, at, depth)
  if ('anchor' in node && typeof node.anchor === 'string') conversion.anchors.set(node.anchor, tree)
  return tree
}

function treeOf(node: Exclude<Node, Alias>, conversion: Conversion, at: Place, depth: number): Tree {
  if (isScalar(node)) {
    const { value, source } = node
    const plain = typeof value === 'number' || typeof value === 'boolean' || value === null ? value : String(value)
    return {
      kind: 'scalar',
      at,
      value: plain,
      text: plain === null ? '' : typeof plain === 'string' ? plain : (source ?? String(plain)),
    }
  }
  if (isMap(node)) return mapOf(node.items, conversion, at, depth)
  const items: Tree[] = []
  for (const item of node.items) items.push(convert(item as Node, conversion, depth + 1))
  return { kind: 'list', at, items }
}

function mapOf(pairs: readonly unknown[], conversion: Conversion, at: Place, depth: number): Mapping | List {
  const entries = new Map<string, Tree>()
  const merged: Tree[] = []
  for (const pair of pairs as readonly { readonly key: unknown; readonly value: Node | null }[]) {
    const { key } = pair
    const keyAt = conversion.placeOf((key as Node | null)?.range?.[0] ?? 0)
    if (!isScalar(key)) throw new Invalid([fault(keyAt, 'A key must be text')])
    const name = typeof key.value === 'string' ? key.value : (key.source ?? String(key.value))
    const value = pair.value
      ? convert(pair.value, conversion, depth + 1)
      : ({ kind: 'scalar', at: keyAt, value: null, text: '' } as const)
    // A map with only a merge key whose value is a list becomes that list. The specification does not define this, but
    // users write it.
    if (name === '<<' && value.kind === 'list' && pairs.length === 1 && !value.items.some(({ kind }) => kind === 'map'))
      return { ...value, at }
    if (name === '<<') merged.push(...mergedOf(value))
    else if (entries.has(name)) throw new Invalid([fault(keyAt, `The key "${name}" is in its map twice`)])
    // Use the key's position, because a nested value begins on a later line.
    else entries.set(name, { ...value, at: keyAt })
  }
  for (const one of merged) {
    if (one.kind !== 'map') throw new Invalid([fault(one.at, 'A merge key (<<) takes maps, or lists of NAME=value')])
    for (const [name, value] of one.entries) if (!entries.has(name)) entries.set(name, value)
  }
  return { kind: 'map', at, entries }
}

/**
 * Returns the maps of a merge key. Accepts a list of NAME=value, which the specification does not define, but users
 * write.
 */
function mergedOf(value: Tree): readonly Tree[] {
  const map = asMap(value)
  return map.kind === 'list' ? map.items : [map]
}

function aliased(node: Alias, conversion: Conversion, at: Place): Tree {
  const tree = conversion.anchors.get(node.source)
  if (!tree) throw new Invalid([fault(at, `There is no anchor &${node.source} before this alias`)])
  count(conversion, at, sizeOf(tree))
  return tree
}

/**
 * Adds to the number of nodes of a file. Throws before the aliases of a file expand to more nodes than can be
 * processed.
 */
function count(conversion: Conversion, at: Place, nodes: number): void {
  conversion.nodes += nodes
  if (conversion.nodes > mostNodes)
    throw new Invalid([fault(at, `The file, with all aliases expanded, exceeds the limit of ${mostNodes} values`)])
}

const sizes = new WeakMap<Tree, number>()
/**
 * Returns the number of nodes in a tree, computed once per tree. Counting the nodes of nested aliases each time would
 * take exponential time.
 */
function sizeOf(tree: Tree): number {
  if (tree.kind === 'scalar') return 1
  const known = sizes.get(tree)
  if (known !== undefined) return known
  const parts = tree.kind === 'list' ? tree.items : [...tree.entries.values()]
  const size = parts.reduce((sum, part) => sum + sizeOf(part), 1)
  sizes.set(tree, size)
  return size
}
