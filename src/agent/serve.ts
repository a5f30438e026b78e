import { type Static, type TSchema, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { Value } from 'typebox/value'
import type { Bus, RequestHandler } from '../bus/bus.ts'
import {
  BuildPut,
  type BuildVerb,
  decodeInput,
  type HostVerb,
  LogForget,
  LogSearch,
  type NetworkVerb,
  type RuntimeVerb,
  type SessionInput,
  SnapshotPut,
  subjects,
  VmExec,
  VmForget,
  VmLogsRequest,
  VmPut,
  VmSession,
  VolumePut,
  VolumeSnapshotPut,
  type VolumeVerb,
} from '../contract/agent.ts'
import { HostNetwork } from '../contract/network.ts'
import { semaphore } from '../lib/semaphore.ts'
import { logsAnswer } from './logs/line.ts'
import type { RetainedLogs } from './logs/retained.ts'
import { searchLogs } from './logs/search.ts'
import type { Builds } from './build/builds.ts'
import type { PrivateNetwork } from './net/private-network.ts'
import type { Reconciler } from './reconcile.ts'
import type { Snapshots } from './snapshot/snapshots.ts'
import { StepError } from './base/step-error.ts'
import type { Storage } from './volume/service.ts'

const VmRef = Type.Object({ vmId: Type.String() })
const VolumeRef = Type.Object({ volumeId: Type.String() })
const SnapshotRef = Type.Object({ snapshotId: Type.String() })

/** Compiled, because this schema validates every request of a VM session. */
const vmSession = Compile(VmSession)

/** Maximum number of concurrent log searches: each of them takes processor time that VMs could use. */
const mostSearches = 2

/** Serves requests to this host on the bus until the signal is aborted. */
export async function serveHost(
  bus: Bus,
  host: { readonly hostId: string; readonly incarnation: string },
  parts: {
    readonly reconciler: Reconciler
    readonly snapshots: Snapshots
    readonly builds: Builds
    readonly storage: Storage
    readonly privateNetwork: PrivateNetwork
    readonly retainedLogs: RetainedLogs
  },
  signal: AbortSignal,
): Promise<void> {
  const { reconciler, snapshots, builds, storage, privateNetwork, retainedLogs } = parts
  const searching = semaphore(mostSearches)
  const handlers = {
    'network.put': data => privateNetwork.put(parsed(HostNetwork, data)),
    'vm.put': data => reconciler.put(parsed(VmPut, data)),
    'vm.get': data => reconciler.get(parsed(VmRef, data).vmId),
    'vm.list': () => ({ vms: reconciler.list() }),
    'vm.logs': async data => {
      const request = parsed(VmLogsRequest, data)
      const ofBuild = await builds.logs(request.vmId, request.tail, request.afterUs)
      return logsAnswer(request, ofBuild ?? (await reconciler.logs(request)))
    },
    'logs.search': async data => {
      const search = parsed(LogSearch, data)
      const release = await searching.take(signal)
      try {
        return await searchLogs(search, async vmId => (await builds.logFiles(vmId)) ?? reconciler.logFiles(vmId))
      } finally {
        release()
      }
    },
    'logs.forget': async data => {
      await retainedLogs.forget(parsed(LogForget, data).appIds)
      return {}
    },
    'vm.forget': data => reconciler.forget(parsed(VmForget, data)),
    ping: () => ({ incarnation: host.incarnation }),
    'vm.exec': data => reconciler.exec(parsed(VmExec, data)),
    'vm.session': data => {
      if (data instanceof Uint8Array) {
        const input = inputOf(data)
        return reconciler.session(input.vmId, input)
      }
      const { vmId, request } = vmSession.Check(data) ? data : parsed(VmSession, data)
      return reconciler.session(vmId, request)
    },
    'snapshot.put': data => snapshots.put(parsed(SnapshotPut, data)),
    'snapshot.get': data => snapshots.get(parsed(SnapshotRef, data).snapshotId),
    'build.put': data => builds.put(parsed(BuildPut, data)),
    'volume.put': data => storage.volumes.put(parsed(VolumePut, data)),
    'volume.get': data => storage.volumes.get(parsed(VolumeRef, data).volumeId),
    'volume.snapshot': data => storage.snapshots.put(parsed(VolumeSnapshotPut, data)),
  } satisfies Record<HostVerb | RuntimeVerb | BuildVerb | VolumeVerb | NetworkVerb, RequestHandler>
  await Promise.all(verbs.map(verb => bus.serve(subjects.hostIn(host.hostId, verb), handlers[verb], { signal })))
}

const verbs = [
  ...(['logs.search', 'logs.forget'] as const),
  ...(['vm.put', 'vm.get', 'vm.list', 'vm.logs', 'vm.forget', 'ping'] as const),
  ...(['vm.exec', 'vm.session', 'snapshot.put', 'snapshot.get', 'build.put'] as const),
  ...(['volume.put', 'volume.get', 'volume.snapshot', 'network.put'] as const),
]

function inputOf(message: Uint8Array): SessionInput {
  try {
    return decodeInput(message)
  } catch (cause) {
    throw StepError.wrap('invalid_request', cause)
  }
}

function parsed<T extends TSchema>(schema: T, data: unknown): Static<T> {
  if (Value.Check(schema, data)) return data
  const [first] = Value.Errors(schema, data)
  throw new StepError(
    'invalid_request',
    `the request does not fit the contract: ${first?.instancePath} ${first?.message}`,
  )
}
