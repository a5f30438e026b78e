/**
 * Handles requests of page servers (Neon RFC 025). A page server that starts gets new generations for all its tenants
 * before it may write. Before it deletes files, it checks that its generations are current.
 */
import type { Deps } from '../base/deps.ts'
import { notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { defaultStorageNode, validOf } from './rules.ts'
import { storageNodes } from './storage-nodes.ts'
import { upcallOperations } from './schema.ts'
import { upcallAdmission } from './upcall-admission.ts'
import * as store from './upcall-store.ts'

export function upcallFeature(deps: Pick<Deps, 'db' | 'config' | 'log'>) {
  const admit = upcallAdmission(deps.config)
  const nodes = new Set(storageNodes(deps.config.databases).map(({ id }) => id))
  return feature(upcallOperations, {
    reAttach: {
      write: async call => {
        admit(call)
        const node = call.body?.node_id ?? defaultStorageNode
        // An unknown page server gets 404, because an empty list would make it drop its tenants.
        if (!nodes.has(node)) throw notFound()
        return async tx => {
          const tenants = await store.raise(tx, node)
          deps.log.info({ node, tenants: tenants.length }, 'a storage node re-attached; its generations were raised')
          // Current page servers require the fields `mode` and `stripe_size` (16 MiB in pages of 8 KiB).
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
