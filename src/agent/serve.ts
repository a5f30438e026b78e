import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Bus, RequestHandler } from '../bus/bus.ts'
import {
  type HostVerb,
  type RuntimeVerb,
  SnapshotPut,
  subjects,
  VmExec,
  VmForget,
  VmLogsRequest,
  VmPut,
} from '../contract/agent.ts'
import { toLogLine } from './logs/line.ts'
import type { Reconciler } from './reconcile.ts'
import type { Snapshots } from './snapshot/snapshots.ts'
import { StepError } from './vm/errors.ts'

const VmRef = Type.Object({ vmId: Type.String() })
const SnapshotRef = Type.Object({ snapshotId: Type.String() })

/** Answers this host's requests on the bus until the signal ends it. */
export async function serveHost(
  bus: Bus,
  host: { readonly hostId: string; readonly incarnation: string },
  { reconciler, snapshots }: { readonly reconciler: Reconciler; readonly snapshots: Snapshots },
  signal: AbortSignal,
): Promise<void> {
  const handlers = {
    'vm.put': data => reconciler.put(parsed(VmPut, data)),
    'vm.get': data => reconciler.get(parsed(VmRef, data).vmId),
    'vm.list': () => ({ vms: reconciler.list() }),
    'vm.logs': async data => ({ lines: (await reconciler.logs(parsed(VmLogsRequest, data))).map(toLogLine) }),
    'vm.forget': data => reconciler.forget(parsed(VmForget, data)),
    ping: () => ({ incarnation: host.incarnation }),
    'vm.exec': data => reconciler.exec(parsed(VmExec, data)),
    'snapshot.put': data => snapshots.put(parsed(SnapshotPut, data)),
    'snapshot.get': data => snapshots.get(parsed(SnapshotRef, data).snapshotId),
  } satisfies Record<HostVerb | RuntimeVerb, RequestHandler>
  await Promise.all(verbs.map(verb => bus.serve(subjects.hostIn(host.hostId, verb), handlers[verb], { signal })))
}

const verbs = [
  ...(['vm.put', 'vm.get', 'vm.list', 'vm.logs', 'vm.forget', 'ping'] as const),
  ...(['vm.exec', 'snapshot.put', 'snapshot.get'] as const),
]

function parsed<T extends TSchema>(schema: T, data: unknown): Static<T> {
  if (Value.Check(schema, data)) return data
  const [first] = Value.Errors(schema, data)
  throw new StepError(
    'invalid_request',
    `the request does not fit the contract: ${first?.instancePath} ${first?.message}`,
  )
}
