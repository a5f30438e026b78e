/** The page servers of the installation. A tenant is created on one of them and stays there. */
import type { DatabaseConfig } from '../base/config.ts'
import { defaultStorageNode } from './rules.ts'

export interface StorageNode {
  readonly id: number
  /** URL of the page server's management API; empty: the page server keeps its tenants but gets no new ones. */
  readonly url: string
}

type NodeConfig = Pick<DatabaseConfig, 'pageserverUrl' | 'storageNodes'>

export const storageNodes = ({ pageserverUrl, storageNodes: others }: NodeConfig): readonly StorageNode[] => [
  { id: defaultStorageNode, url: pageserverUrl },
  ...others.filter(({ id }) => id !== defaultStorageNode),
]

/** Returns the management API of the tenant's page server. @throws Error when that node is no longer configured */
export function pageserverOf(config: NodeConfig, node: number | null): string {
  const found = storageNodes(config).find(({ id }) => id === node)
  if (!found?.url) throw new Error(`storage node ${node} has no address; set it in MOTE_STORAGE_NODES`)
  return found.url
}

/**
 * Returns the id of the page server with the fewest tenants; of several, the first.
 * @param counts number of tenants of each page server that has any
 */
export function chooseNode(nodes: readonly StorageNode[], counts: ReadonlyMap<number, number>): number {
  const open = nodes.filter(({ url }) => url !== '')
  const least = open.toSorted((a, b) => (counts.get(a.id) ?? 0) - (counts.get(b.id) ?? 0))[0]
  return least?.id ?? defaultStorageNode
}
