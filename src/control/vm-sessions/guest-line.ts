/** Sends requests about sessions of one VM to the VM's current host. */
import { setTimeout as delay } from 'node:timers/promises'
import { BusError } from '../../bus/bus.ts'
import {
  maxTextInputBytes,
  type SessionAnswer,
  type SessionInput,
  type SessionOutput,
  type SessionRequest,
} from '../../contract/agent.ts'
import { backoffMs } from '../../lib/backoff.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient, type SessionRead } from '../hosts/index.ts'
import { vmById } from '../vms/index.ts'

/** Error: the VM, or the session in it, no longer exists. */
export class SessionGone extends Error {
  override readonly name = 'SessionGone'
}

/** Error: the VM's host does not respond, or the VM is paused. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable'
}

export interface GuestLine {
  /** Sends a request to the guest. @throws SessionGone, Unreachable, BusError `remote` if the guest refuses it */
  ask<A extends SessionRequest['action']>(
    request: Extract<SessionRequest, { action: A }>,
    signal?: AbortSignal,
  ): Promise<Extract<SessionAnswer, { action: A }>>
  /** Reads output of the session, which the agent sends as bytes instead of base64 text if it supports that. */
  read(request: SessionRead, signal?: AbortSignal): Promise<SessionOutput>
  /**
   * Number of `input` requests that may be in progress at the same time. It is 1 until the agent is known to support
   * more.
   */
  inputsAhead(): number
  /**
   * Writes input data to the session; the agent may accept only the first part. Resolves with the number of input
   * bytes that the program has received.
   */
  input(at: InputAt, parts: readonly Uint8Array[], signal?: AbortSignal): Promise<number>
}

interface Host {
  readonly id: string
  takesBytes: boolean
  takesInputAhead: boolean
}

/** Maximum number of concurrent input requests: two are on the way while the agent writes a third one. */
const mostInputsAhead = 3

export type InputAt = Pick<SessionInput, 'sessionId' | 'offset'>

export function guestLine({ db, bus }: Pick<Deps, 'db' | 'bus'>, vmId: string): GuestLine {
  let host: Host | undefined
  const locate = async () => {
    const vm = await vmById(db, vmId)
    if (!vm || vm.want === 'absent') throw new SessionGone('the VM is gone')
    if (!vm.hostId) throw new Unreachable('the VM has no host')
    return { id: vm.hostId, takesBytes: false, takesInputAhead: false }
  }
  const onHost = async <T>(run: (agent: ReturnType<typeof agentClient>, host: Host) => Promise<T>): Promise<T> => {
    try {
      const found = (host ??= await locate())
      return await run(agentClient(bus, found.id), found)
    } catch (cause) {
      // Locate the VM again for the next request: it may be on another host by now, or its agent may have been
      // downgraded.
      host = undefined
      throw faultOf(cause)
    }
  }
  return {
    ask: (request, signal) =>
      onHost(async (agent, found) => {
        const answer = await agent.session(vmId, request, signal)
        if (answer.action !== request.action) throw new Unreachable('the host sent an unexpected response')
        if ('takesBytes' in answer && answer.takesBytes) found.takesBytes = true
        if ('takesInputAhead' in answer && answer.takesInputAhead) found.takesInputAhead = true
        // The cast is safe: a response has the same action as its request, which the type system cannot express.
        return answer as never
      }),
    read: (request, signal) =>
      onHost(async (agent, found) => {
        const { isBytes, ...output } = await agent.sessionOutput(vmId, request, signal)
        found.takesBytes = isBytes
        return output
      }),
    inputsAhead: () => (host?.takesBytes && host.takesInputAhead ? mostInputsAhead : 1),
    input: (at, parts, signal) =>
      onHost(async (agent, found) => {
        if (found.takesBytes) return agent.sessionInput({ vmId, ...at }, parts, signal)
        const data = Buffer.concat(parts).subarray(0, maxTextInputBytes).toString('base64')
        const answer = await agent.session(vmId, { action: 'input', ...at, data }, signal)
        if (answer.action !== 'input') throw new Unreachable('the host sent an unexpected response')
        return answer.receivedBytes
      }),
  }
}

function faultOf(cause: unknown): unknown {
  if (!(cause instanceof BusError) || cause.code === 'aborted') return cause
  if (cause.remoteCode === 'session_missing') return new SessionGone(cause.message)
  // The guest has refused the request, or every host would refuse it, so a retry would not help.
  if (cause.remoteCode === 'session_refused' || cause.remoteCode === 'invalid_request') return cause
  if (cause.remoteCode === 'unsupported_by_hypervisor') return cause
  return new Unreachable(cause.message, { cause })
}

/** How long `patient` retries requests. A live migration, a pause or an agent restart usually takes less time. */
const patienceMs = 60_000

/**
 * Wraps a `GuestLine` so that it retries requests while the VM's host does not respond. Only for idempotent requests,
 * such as those that contain their position in the stream.
 */
export function patient(line: GuestLine, now: () => number): GuestLine {
  const repeat = async <T>(act: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> => {
    const untilMs = now() + patienceMs
    for (let tries = 1; ; tries++)
      try {
        return await act()
      } catch (cause) {
        if (!(cause instanceof Unreachable) || now() > untilMs || signal?.aborted) throw cause
        await delay(Math.min(2_000, backoffMs(tries, Math.random())), undefined, signal ? { signal } : {})
      }
  }
  return {
    ask: (request, signal) => repeat(() => line.ask(request, signal), signal),
    read: (request, signal) => repeat(() => line.read(request, signal), signal),
    inputsAhead: () => line.inputsAhead(),
    input: (at, parts, signal) => repeat(() => line.input(at, parts, signal), signal),
  }
}
