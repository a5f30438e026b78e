import { interpolate, type Variables } from './interpolate.ts'
import type { Tree } from './tree.ts'

/** Replaces variables in all values of a tree, but not in keys. @throws Invalid */
export function interpolateTree(tree: Tree, variables: Variables): Tree {
  switch (tree.kind) {
    case 'list':
      return { ...tree, items: tree.items.map(item => interpolateTree(item, variables)) }
    case 'map':
      return {
        ...tree,
        entries: new Map([...tree.entries].map(([name, value]) => [name, interpolateTree(value, variables)])),
      }
    case 'scalar': {
      if (typeof tree.value !== 'string' || !tree.value.includes('$')) return tree
      const text = interpolate(tree.value, tree.at, variables)
      return { ...tree, text, value: text }
    }
  }
}
