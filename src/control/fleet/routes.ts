import type { Sql, Tx } from '../../db/db.ts'
import { pokeMany } from '../../engine/runner.ts'
import { type Leaving, drainReport } from '../deployments/index.ts'
import type { Deps } from '../base/deps.ts'
import {
  type HostRow,
  cordon,
  findHost,
  hostRooms,
  labelHost,
  listHosts,
  lockHost,
  removeHost,
  settleStrays,
} from '../hosts/index.ts'
import { faultOfLabels } from '../../lib/labels.ts'
import { invalidField, invalidState, notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { abandonVmsOf, deploymentsOnHost, pokeWaiting } from '../vms/index.ts'
import { type LeavingVolume, leavingVolumes } from '../volumes/index.ts'
import { type Labeled, visibleLabels } from '../scheduler/wishes.ts'
import type { Host, HostDetails } from './resources.ts'
import { hostOperations } from './schema.ts'

interface HostCall {
  readonly params: { readonly host_id: string }
  audit(note: { action: string; resourceType: string; resourceId: string; details: Record<string, unknown> }): void
}

export const hostFeature = (deps: Pick<Deps, 'db' | 'config'>) => {
  const { hostTimeoutSeconds } = deps.config
  const withLeaving = async (sql: Sql, host: HostRow): Promise<HostDetails> => ({
    ...hostView(host),
    ...(host.draining
      ? {
          leaving: (await drainReport(sql, deps, host)).map(leavingView),
          leaving_volumes: (await leavingVolumes(sql, deps, host)).map(leavingVolumeView),
        }
      : {}),
  })
  /** Creates a handler that locks the host, applies the change and returns the host. */
  const verb =
    (name: 'cordon' | 'uncordon' | 'drain' | 'label', act: (tx: Tx, host: HostRow) => Promise<void>) =>
    async (call: HostCall) =>
    async (tx: Tx) => {
      const host = await held(tx, call)
      await act(tx, host)
      call.audit({ action: `host.${name}`, resourceType: 'host', resourceId: host.id, details: { name: host.name } })
      // Omit the drain report: computing it takes many statements, and heartbeats would wait for the lock on the host's
      // row. Clients get the report with GET.
      return hostView((await findHost(tx, hostTimeoutSeconds, host.id)) ?? host)
    }
  const held = async (tx: Tx, { params }: Pick<HostCall, 'params'>): Promise<HostRow> => {
    const found = await findHost(tx, hostTimeoutSeconds, params.host_id)
    if (!found) throw notFound()
    await lockHost(tx, found.id)
    return found
  }

  return feature(hostOperations, {
    listHosts: { read: async () => (await listHosts(deps.db, hostTimeoutSeconds)).map(hostView) },
    getHost: {
      read: async ({ params }) => {
        const host = await findHost(deps.db, hostTimeoutSeconds, params.host_id)
        if (!host) throw notFound()
        return withLeaving(deps.db, host)
      },
    },
    cordonHost: {
      write: verb(
        'cordon',
        async (tx, host) => void (await cordon(tx, host.id, { cordoned: true, draining: host.draining })),
      ),
    },
    uncordonHost: {
      write: verb('uncordon', async (tx, host) => {
        await cordon(tx, host.id, { cordoned: false, draining: false })
        await pokeWaiting(tx)
      }),
    },
    drainHost: {
      write: verb('drain', async (tx, host) => {
        await cordon(tx, host.id, { cordoned: true, draining: true })
        await pokeMany(tx, 'deployment', await deploymentsOnHost(tx, host.id))
      }),
    },
    setHostLabels: {
      write: async call => {
        const { labels } = call.body
        const fault = faultOfLabels(labels)
        if (fault !== undefined) throw invalidField('labels', fault)
        return verb('label', async (tx, host) => {
          await labelHost(tx, host.id, labels)
          await pokeWaiting(tx)
        })(call)
      },
    },
    listHostLabels: {
      read: async () => publicLabelsOf(await hostRooms(deps.db, hostTimeoutSeconds), deps.config.publicLabels),
    },
    removeHost: {
      write: async call => async tx => {
        const host = await held(tx, call)
        const force = call.query.force ?? false
        if (host.vms + host.strays > 0 && !force)
          throw invalidState(
            `Host ${host.name} has ${host.vms} VMs, and ${host.strays} replaced VMs that may still run on it. Drain it first; or, if it never comes back, send force=true.`,
          )
        await removeHost(tx, host.id)
        await abandonVmsOf(tx, host.id)
        await settleStrays(tx, host.id, [])
        call.audit({
          action: 'host.remove',
          resourceType: 'host',
          resourceId: host.id,
          details: { name: host.name, force },
        })
        return { status: 'removed' as const }
      },
    },
  })
}

/** Returns the host labels that apps may see, each with the values that hosts have. */
function publicLabelsOf(hosts: readonly Labeled[], visible: readonly string[]) {
  const pairs = hosts.flatMap(host => Object.entries(visibleLabels(host, visible)))
  return [...new Set(pairs.map(([name]) => name))].toSorted().map(name => ({
    name,
    values: [...new Set(pairs.flatMap(([one, value]) => (one === name ? [value] : [])))].toSorted(),
  }))
}

const leavingView = ({ vmId, projectId, appName, jobId, state, reason }: Leaving) => ({
  vm_id: vmId,
  project_id: projectId,
  app_name: appName,
  job_id: jobId,
  state,
  reason,
})

const leavingVolumeView = ({ volumeId, projectId, name, state, reason }: LeavingVolume) => ({
  volume_id: volumeId,
  project_id: projectId,
  name,
  state,
  reason,
})

const statusOf = (host: HostRow): Host['status'] => (host.lostAt ? 'lost' : host.up ? 'up' : 'suspected')

const hostView = (host: HostRow): Host => ({
  id: host.id,
  name: host.name,
  status: statusOf(host),
  cordoned: host.cordoned,
  draining: host.draining,
  version: host.version,
  arch: host.arch,
  network: host.network,
  hypervisors: host.hypervisors.map(({ name, available, detail }) => ({ name, available, detail })),
  vcpus: host.vcpus,
  memory_mib: host.memoryMib,
  disk_mib: host.diskMib,
  used_vcpus: host.usedVcpus,
  used_memory_mib: host.usedMemoryMib,
  used_disk_mib: host.usedDiskMib,
  vms: host.vms,
  strays: host.strays,
  labels: { ...host.labels },
  agent_labels: { ...host.agentLabels },
  last_seen_at: host.lastSeenAt.toISOString(),
  created_at: host.createdAt.toISOString(),
})
