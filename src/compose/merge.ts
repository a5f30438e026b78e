/** Merges two trees, as the Compose Specification defines it for files and extended services. */
import type { List, Mapping, Tree } from './tree.ts'

/**
 * Keys whose lists replace each other. Other lists are appended, but appending one command to another makes no sense.
 */
const replaced = new Set(['command', 'entrypoint', 'test'])
/** Keys whose values may be lists of NAME=value and are merged by name. */
const pairs = new Set(['environment', 'labels', 'args', 'annotations', 'sysctls', 'extra_hosts'])

/** Merges `over` into `base`. @param path keys that lead to both trees */
export function merge(base: Tree, over: Tree, path: readonly string[]): Tree {
  const key = path.at(-1) ?? ''
  // A null value in the override does not replace a value.
  if (over.kind === 'scalar' && over.value === null && path.length > 0 && !isService(path)) return base
  if (pairs.has(key)) return mergedTrees(asMap(base), asMap(over), path)
  if (key === 'depends_on' || key === 'networks') return mergedTrees(named(base), named(over), path)
  return replaced.has(key) ? over : mergedTrees(base, over, path)
}

const isService = (path: readonly string[]) => path.length === 2 && path[0] === 'services'

function mergedTrees(base: Tree, over: Tree, path: readonly string[]): Tree {
  if (base.kind === 'map' && over.kind === 'map') {
    const entries = new Map(base.entries)
    for (const [name, value] of over.entries) {
      const before = entries.get(name)
      entries.set(name, before ? merge(before, value, [...path, name]) : value)
    }
    return { kind: 'map', at: over.at, entries }
  }
  if (base.kind === 'list' && over.kind === 'list') return joined(base, over)
  return over
}

/** Appends one list to another, without repeated texts. */
function joined(base: List, over: List): List {
  const texts = new Set(over.items.map(item => (item.kind === 'scalar' ? item.text : undefined)))
  const kept = base.items.filter(item => item.kind !== 'scalar' || !texts.has(item.text))
  return { ...over, items: [...kept, ...over.items] }
}

/** Converts a list of NAME=value to a map. The value of a name without `=` is null. */
export function asMap(tree: Tree): Tree {
  if (tree.kind !== 'list') return tree
  const entries = new Map<string, Tree>()
  for (const item of tree.items) {
    if (item.kind !== 'scalar') return tree
    const [, name = '', value] = /^([^=]*)(?:=(.*))?$/s.exec(item.text) ?? []
    entries.set(name, { kind: 'scalar', at: item.at, value: value ?? null, text: value ?? '' })
  }
  return { kind: 'map', at: tree.at, entries }
}

/** Converts a list of names to a map with empty values. */
function named(tree: Tree): Tree {
  if (tree.kind !== 'list') return tree
  const empty = (at: Mapping['at']): Mapping => ({ kind: 'map', at, entries: new Map() })
  return {
    kind: 'map',
    at: tree.at,
    entries: new Map(tree.items.map(item => [item.kind === 'scalar' ? item.text : '', empty(item.at)])),
  }
}
