import { interpolate, type Variables } from './interpolate.ts'
import type { Tree } from './tree.ts'

/** Replaces variables in all values of the tree; keys stay as they are. @throws Invalid */
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
