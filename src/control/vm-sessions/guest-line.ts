/** Requests about one session to the host of its VM, wherever the VM is at that time. */
import { setTimeout as delay } from 'node:timers/promises'
import { BusError } from '../../bus/bus.ts'
import type { SessionAnswer, SessionRequest } from '../../contract/agent.ts'
import { backoffMs } from '../../lib/backoff.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import { vmById } from '../vms/index.ts'

/** The VM, or the session in it, no longer exists. */
export class SessionGone extends Error {
  override readonly name = 'SessionGone'
}

/** The VM's host does not answer, or the VM is paused. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable'
}

export interface GuestLine {
  /** @throws SessionGone, Unreachable, BusError `remote` when the guest refuses the request */
  ask<A extends SessionRequest['action']>(
    request: Extract<SessionRequest, { action: A }>,
    signal?: AbortSignal,
  ): Promise<Extract<SessionAnswer, { action: A }>>
}

export function guestLine({ db, bus }: Pick<Deps, 'db' | 'bus'>, vmId: string): GuestLine {
  let hostId: string | undefined
  const locate = async () => {
    const vm = await vmById(db, vmId)
    if (!vm || vm.want === 'absent') throw new SessionGone('the VM is gone')
    if (!vm.hostId) throw new Unreachable('the VM has no host')
    return vm.hostId
  }
  return {
    async ask(request, signal) {
      try {
        hostId ??= await locate()
        const answer = await agentClient(bus, hostId).session(vmId, request, signal)
        if (answer.action !== request.action) throw new Unreachable('the host answered something else')
        // The answer has the action of the request, which the union cannot express.
        return answer as never
      } catch (cause) {
        // The VM may be on another host by now.
        hostId = undefined
        throw faultOf(cause)
      }
    },
  }
}

function faultOf(cause: unknown): unknown {
  if (!(cause instanceof BusError) || cause.code === 'aborted') return cause
  if (cause.remoteCode === 'session_missing') return new SessionGone(cause.message)
  // A refusal of the guest, or a request that no host would accept.
  if (cause.remoteCode === 'session_refused' || cause.remoteCode === 'invalid_request') return cause
  if (cause.remoteCode === 'unsupported_by_hypervisor') return cause
  return new Unreachable(cause.message, { cause })
}

/** A live migration, a pause or a restart of the agent takes less. */
const patienceMs = 60_000

/** Repeats requests while the VM's host does not answer. Only for requests that state their positions. */
export function patient(line: GuestLine, now: () => number): GuestLine {
  return {
    async ask(request, signal) {
      const untilMs = now() + patienceMs
      for (let tries = 1; ; tries++)
        try {
          return await line.ask(request, signal)
        } catch (cause) {
          if (!(cause instanceof Unreachable) || now() > untilMs || signal?.aborted) throw cause
          await delay(Math.min(2_000, backoffMs(tries, Math.random())), undefined, signal ? { signal } : {})
        }
    },
  }
}
