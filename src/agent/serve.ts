import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Bus, RequestHandler } from '../bus/bus.ts'
import { type HostVerb, subjects, VmForget, VmLogsRequest, VmPut } from '../contract/agent.ts'
import { toLogLine } from './logs/line.ts'
import type { Reconciler } from './reconcile.ts'
import { StepError } from './vm/errors.ts'

const VmRef = Type.Object({ vmId: Type.String() })

/** Answers this host's requests on the bus until the signal ends it. */
export async function serveHost(
  bus: Bus,
  host: { readonly hostId: string; readonly incarnation: string },
  reconciler: Reconciler,
  signal: AbortSignal,
): Promise<void> {
  const handlers = {
    'vm.put': data => reconciler.put(parsed(VmPut, data)),
    'vm.get': data => reconciler.get(parsed(VmRef, data).vmId),
    'vm.list': () => ({ vms: reconciler.list() }),
    'vm.logs': async data => ({ lines: (await reconciler.logs(parsed(VmLogsRequest, data))).map(toLogLine) }),
    'vm.forget': data => reconciler.forget(parsed(VmForget, data)),
    ping: () => ({ incarnation: host.incarnation }),
  } satisfies Record<HostVerb, RequestHandler>
  const verbs = ['vm.put', 'vm.get', 'vm.list', 'vm.logs', 'vm.forget', 'ping'] as const
  await Promise.all(verbs.map(verb => bus.serve(subjects.hostIn(host.hostId, verb), handlers[verb], { signal })))
}

function parsed<T extends TSchema>(schema: T, data: unknown): Static<T> {
  if (Value.Check(schema, data)) return data
  const [first] = Value.Errors(schema, data)
  throw new StepError(
    'invalid_request',
    `the request does not fit the contract: ${first?.instancePath} ${first?.message}`,
  )
}
