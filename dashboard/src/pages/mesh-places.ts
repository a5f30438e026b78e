import type { MeshNode } from '@mote/client'

export const sizePx = 640

export interface Place {
  readonly node: MeshNode
  readonly x: number
  readonly y: number
}

/** Positions of hosts on an ellipse, ordered by name, so that a host keeps its position when its state changes. */
export function placesOf(nodes: readonly MeshNode[]): readonly Place[] {
  const [cx, cy] = [sizePx / 2, sizePx * 0.29]
  const [rx, ry] = nodes.length === 1 ? [0, 0] : [sizePx * 0.38, sizePx * 0.2]
  return nodes
    .toSorted((a, b) => a.name.localeCompare(b.name))
    .map((node, index) => {
      const angle = (2 * Math.PI * index) / nodes.length - Math.PI / 2
      return { node, x: cx + rx * Math.cos(angle), y: cy + ry * Math.sin(angle) }
    })
}
