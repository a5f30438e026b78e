/**
 * What storage nodes ask (Neon RFC 025). A node that has started gets new generations for all its tenants before it may
 * write; a node that is about to delete asks whether its generations are still the newest.
 */
import { timingSafeEqual } from 'node:crypto'
import { BlockList, isIP } from 'node:net'
import type { Deps } from '../deps.ts'
import { forbidden, notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { defaultStorageNode, validOf } from './rules.ts'
import { upcallOperations } from './schema.ts'
import * as store from './upcall-store.ts'

export function upcallFeature(deps: Pick<Deps, 'db' | 'config' | 'log'>) {
  const admit = admission(deps.config)
  const nodes = new Set([defaultStorageNode, ...deps.config.databases.storageNodes])
  return feature(upcallOperations, {
    reAttach: {
      write: async call => {
        admit(call)
        const node = call.body?.node_id ?? defaultStorageNode
        // An empty list would make the node drop what it has: one that we do not know gets none.
        if (!nodes.has(node)) throw notFound()
        return async tx => {
          const tenants = await store.raise(tx, node)
          deps.log.info({ node, tenants: tenants.length }, 'a storage node attached again; generations were raised')
          // Current page servers insist on mode and stripe size (16 MiB in pages of 8 KiB).
          return { tenants: tenants.map(tenant => ({ ...tenant, mode: 'AttachedSingle', stripe_size: 2048 })) }
        }
      },
    },

    validateGenerations: {
      read: async call => {
        admit(call)
        const asked = call.body.tenants
        const known = await store.generations(deps.db, [...new Set(asked.map(({ id }) => id))])
        return { tenants: validOf(asked, known) }
      },
    },
  })
}

interface Caller {
  readonly ip: string
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
}

/** From loopback, a configured network, or with the shared secret; the contract declares no credential. */
function admission(config: Deps['config']): (caller: Caller) => void {
  const networks = new BlockList()
  for (const network of ['127.0.0.0/8', '::1/128', ...config.storageNetworks]) {
    const [address = '', bits] = network.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    networks.addSubnet(address, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family)
  }
  const secret = config.databases.storageSecret
  return ({ ip, headers }) => {
    const plain = ip.replace(/^::ffff:/, '')
    if (networks.check(plain, isIP(plain) === 6 ? 'ipv6' : 'ipv4')) return
    if (secret !== '' && equal(String(headers.authorization ?? ''), `Bearer ${secret}`)) return
    throw forbidden('Only storage nodes may ask this: see MOTE_STORAGE_NETWORKS and MOTE_STORAGE_SECRET.')
  }
}

function equal(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}
