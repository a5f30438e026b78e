import { type TSchema, type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Bus } from '../../bus/bus.ts'
import {
  type HostVerb,
  type VmLogsRequest,
  VmLogsAnswer,
  VmObserved,
  type VmPut,
  subjects,
} from '../../contract/agent.ts'

/** Calls to one host. Each answers within a second or rejects with a BusError; none is ever made inside a request's transaction. */
export interface AgentClient {
  put(put: VmPut, signal?: AbortSignal): Promise<VmObserved>
  get(vmId: string, signal?: AbortSignal): Promise<VmObserved>
  list(signal?: AbortSignal): Promise<VmObserved[]>
  ping(signal?: AbortSignal): Promise<void>
  logs(request: VmLogsRequest, signal?: AbortSignal): Promise<VmLogsAnswer>
  /** Removes a VM that is not this host's any more. `generation`: what the host said it has. */
  forget(vmId: string, generation: number): Promise<VmObserved>
}

const timeoutMs = 5000
const VmList = Type.Object({ vms: Type.Array(VmObserved) })

export function agentClient(bus: Bus, hostId: string): AgentClient {
  const call = async <S extends TSchema>(verb: HostVerb, answer: S, data: unknown, signal?: AbortSignal): Promise<Static<S>> => {
    const raw = await bus.request(subjects.hostIn(hostId, verb), data, { timeoutMs, ...(signal ? { signal } : {}) })
    return Value.Parse(answer, raw) as Static<S>
  }
  return {
    put: (put, signal) => call('vm.put', VmObserved, put, signal),
    get: (vmId, signal) => call('vm.get', VmObserved, { vmId }, signal),
    list: async signal => (await call('vm.list', VmList, {}, signal)).vms,
    ping: async signal => {
      await call('ping', Type.Object({ incarnation: Type.String() }), {}, signal)
    },
    logs: (request, signal) => call('vm.logs', VmLogsAnswer, request, signal),
    forget: (vmId, generation) => call('vm.forget', VmObserved, { vmId, generation }),
  }
}
