import { type TSchema, type Static, Type } from 'typebox'
import { Compile, type Validator } from 'typebox/compile'
import type { Bus } from '../../bus/bus.ts'
import { giveBytes } from '../../lib/buffer-pool.ts'
import {
  decodeOutput,
  encodeInput,
  encodeOutput,
  type HostVerb,
  type LogSearch,
  LogSearchAnswer,
  type RuntimeVerb,
  maxReadWaitMs,
  SessionAnswer,
  type SessionInput,
  type SessionOutput,
  type SessionRequest,
  SnapshotObserved,
  textWindowBytes,
  type SnapshotPut,
  type VmExec,
  VmExecAnswer,
  type VmLogsRequest,
  VmLogsAnswer,
  VmObserved,
  type VmPut,
  VolumeObserved,
  type VolumePut,
  VolumeSnapshotObserved,
  type VolumeSnapshotPut,
  type VolumeVerb,
  subjects,
} from '../../contract/agent.ts'

/**
 * Client of one host's agent. Each call resolves within a timeout or rejects with a BusError. Calls are never made
 * inside the transaction of a request.
 */
export interface AgentClient {
  put(put: VmPut, signal?: AbortSignal): Promise<VmObserved>
  get(vmId: string, signal?: AbortSignal): Promise<VmObserved>
  list(signal?: AbortSignal): Promise<VmObserved[]>
  ping(signal?: AbortSignal): Promise<void>
  logs(request: Omit<VmLogsRequest, 'events'>, signal?: AbortSignal): Promise<VmLogsAnswer>
  /**
   * Searches the logs of VMs on the host. @throws BusError `no_responder` also for older agents, which have no search
   */
  searchLogs(search: LogSearch, signal?: AbortSignal): Promise<LogSearchAnswer>
  /** Deletes the logs of those VMs of the given apps that no longer exist. */
  forgetLogs(appIds: readonly string[], signal?: AbortSignal): Promise<void>
  /** Returns a page of the log as bytes in the format of log-page.ts; older agents return lines. */
  logPage(request: Required<VmLogsRequest>): Promise<VmLogsAnswer | Uint8Array>
  putSnapshot(put: SnapshotPut, signal?: AbortSignal): Promise<SnapshotObserved>
  putVolume(put: VolumePut, signal?: AbortSignal): Promise<VolumeObserved>
  putVolumeSnapshot(put: VolumeSnapshotPut, signal?: AbortSignal): Promise<VolumeSnapshotObserved>
  /** Runs a command in a VM. Resolves when the command has ended. */
  exec(request: VmExec, signal?: AbortSignal): Promise<VmExecAnswer>
  /**
   * Sends a request about a VM session. If the response is lost, it can be repeated with the same offsets. A `read`
   * takes up to `waitMs`, an `input` up to 20 s.
   */
  session(vmId: string, request: SessionRequest, signal?: AbortSignal): Promise<SessionAnswer>
  /** Reads the output of a session. `isBytes` is true if the agent also accepts input as bytes. */
  sessionOutput(vmId: string, request: SessionRead, signal?: AbortSignal): Promise<SessionOutput & { isBytes: boolean }>
  /** Writes input to a session as bytes. Older agents respond with an error. */
  sessionInput(input: Omit<SessionInput, 'data'>, data: readonly Uint8Array[], signal?: AbortSignal): Promise<number>
  /**
   * Removes a VM that no longer belongs to this host. @param generation the VM's generation in the host's last report
   */
  forget(vmId: string, generation: number): Promise<VmObserved>
}

export type SessionRead = Omit<Extract<SessionRequest, { action: 'read' }>, 'action' | 'bytes'>

const timeoutMs = 5000
const Incarnation = Type.Object({ incarnation: Type.String() })
const Nothing = Type.Object({})
const VmList = Type.Object({ vms: Type.Array(VmObserved) })

const validators = new Map<TSchema, Validator>()
/**
 * Returns the validator of a schema, which is compiled on first use: compiling all validators at startup would delay
 * the startup.
 */
function validator(schema: TSchema): Validator {
  const made = validators.get(schema) ?? Compile(schema)
  validators.set(schema, made)
  return made
}

const otherAnswer = () => new Error('the host sent an unexpected response')

export function agentClient(bus: Bus, hostId: string): AgentClient {
  const call = async <S extends TSchema>(
    verb: HostVerb | RuntimeVerb | VolumeVerb,
    answer: S,
    data: unknown,
    signal?: AbortSignal,
    limitMs = timeoutMs,
  ): Promise<Static<S>> => {
    const options = { timeoutMs: limitMs, ...(signal ? { signal } : {}) }
    const raw = await bus.request(subjects.hostIn(hostId, verb), data, options)
    return validator(answer).Parse(raw) as Static<S>
  }
  const logPage = async (request: Required<VmLogsRequest>): Promise<VmLogsAnswer | Uint8Array> => {
    const raw = await bus.request(subjects.hostIn(hostId, 'vm.logs'), request, { timeoutMs })
    return raw instanceof Uint8Array ? raw : (validator(VmLogsAnswer).Parse(raw) as VmLogsAnswer)
  }
  const session = async (data: unknown, signal?: AbortSignal): Promise<SessionAnswer | Uint8Array> => {
    const options = { timeoutMs: maxReadWaitMs + timeoutMs, ...(signal ? { signal } : {}) }
    const raw = await bus.request(subjects.hostIn(hostId, 'vm.session'), data, options)
    return raw instanceof Uint8Array ? raw : (validator(SessionAnswer).Parse(raw) as SessionAnswer)
  }
  return {
    put: (put, signal) => call('vm.put', VmObserved, put, signal),
    get: (vmId, signal) => call('vm.get', VmObserved, { vmId }, signal),
    list: async signal => (await call('vm.list', VmList, {}, signal)).vms,
    ping: async signal => {
      await call('ping', Incarnation, {}, signal)
    },
    logs: (request, signal) => call('vm.logs', VmLogsAnswer, request, signal),
    searchLogs: (search, signal) => call('logs.search', LogSearchAnswer, search, signal),
    forgetLogs: async (appIds, signal) => {
      await call('logs.forget', Nothing, { appIds }, signal)
    },
    logPage,
    putSnapshot: (put, signal) => call('snapshot.put', SnapshotObserved, put, signal),
    putVolume: (put, signal) => call('volume.put', VolumeObserved, put, signal),
    putVolumeSnapshot: (put, signal) => call('volume.snapshot', VolumeSnapshotObserved, put, signal),
    exec: (request, signal) => call('vm.exec', VmExecAnswer, request, signal, request.timeoutMs + timeoutMs),
    async session(vmId, request, signal) {
      const answer = await session({ vmId, request }, signal)
      if (answer instanceof Uint8Array) throw otherAnswer()
      return answer
    },
    async sessionOutput(vmId, read, signal) {
      const request = { action: 'read', bytes: true, ...read } as const
      const answer = await session({ vmId, request }, signal)
      if (answer instanceof Uint8Array) return { ...decodeOutput(answer), isBytes: true }
      if (answer.action !== 'read') throw otherAnswer()
      const parts = answer.parts.map(part => ({ ...part, data: Buffer.from(part.data, 'base64') }))
      const output = { parts, end: answer.end, windowBytes: textWindowBytes }
      return { ...decodeOutput(encodeOutput(output)), isBytes: false }
    },
    async sessionInput(at, data, signal) {
      const message = encodeInput(at, data)
      const answer = await session(message, signal)
      giveBytes(message)
      if (answer instanceof Uint8Array || answer.action !== 'input') throw otherAnswer()
      return answer.receivedBytes
    },
    forget: (vmId, generation) => call('vm.forget', VmObserved, { vmId, generation }),
  }
}
