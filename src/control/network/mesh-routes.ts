import { setTimeout as delay } from 'node:timers/promises'
import type { Deps } from '../base/deps.ts'
import { listHosts, type LiveStats } from '../hosts/index.ts'
import type { Handlers } from '../http/operation.ts'
import { meshStatus } from './mesh.ts'
import { listMeshHosts, prefixOf } from './network-store.ts'
import type { networkOperations } from './schema.ts'

type MeshOperations = Pick<typeof networkOperations, 'getMesh' | 'streamMesh'>

/**
 * Interval at which an open stream checks for changes. Hosts measure latency twice a second and report every second.
 */
const pollEveryMs = 500

export const meshHandlers = (
  deps: Pick<Deps, 'db' | 'config' | 'clock'> & { readonly live: LiveStats },
): Handlers<MeshOperations> => {
  const read = async (isAdmin: boolean) => {
    const [hosts, meshHosts, prefix] = await Promise.all([
      listHosts(deps.db, deps.config.hostTimeoutSeconds),
      listMeshHosts(deps.db),
      prefixOf(deps.db),
    ])
    return meshStatus({ hosts, meshHosts, prefix, observed: deps.live.networks(), isAdmin })
  }
  return {
    getMesh: { read: async ({ caller }) => read(caller.role === 'Admin') },

    /** Sends `snapshot` first, then `mesh` after each change. */
    streamMesh: {
      async stream({ caller }, stream) {
        let reported: string | undefined
        let id = 0
        while (!stream.signal.aborted) {
          const status = await read(caller.role === 'Admin')
          const text = JSON.stringify(status)
          if (text !== reported) {
            const event = reported === undefined ? 'snapshot' : 'mesh'
            id += 1
            const data = { at: deps.clock.now().toISOString(), ...status }
            if (!stream.send({ event, id: String(id), data })) return
            reported = text
          }
          // An aborted signal only ends the pause; the loop condition then ends the stream.
          await delay(pollEveryMs, undefined, { signal: stream.signal }).catch(() => {})
        }
      },
    },
  }
}
