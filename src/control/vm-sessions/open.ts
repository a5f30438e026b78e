/** Opens a session: inserts its row, then starts the program in the guest. */
import { BusError } from '../../bus/bus.ts'
import type { SessionRequest } from '../../contract/agent.ts'
import { newId } from '../../lib/ids.ts'
import type { Sql } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import type { Deployment } from '../deployments/index.ts'
import { ApiError, invalidField, invalidState, notFound } from '../http/errors.ts'
import { isRunVm } from '../runs/index.ts'
import { type GuestLine, guestLine, SessionGone, Unreachable } from './guest-line.ts'
import * as store from './store.ts'

/** Maximum number of open sessions per project. A guest runs at most 16. */
const mostPerProject = 200

export interface NewSession {
  readonly accountId: string
  readonly deployment: Deployment
  readonly vmId: string
  /** Name of the program that is shown in session lists and the audit log. */
  readonly program: string
  /** Seconds without a client after which the program is killed; null: never. */
  readonly idleSeconds: number | null
  /** Idempotency key: requests with the same key open only one session. */
  readonly requestKey: Buffer | null
  /** The program or connection to start in the guest. */
  readonly start: Omit<OpenRequest, 'action' | 'sessionId'>
}

type OpenRequest = Extract<SessionRequest, { action: 'open' }>

/**
 * Opens a session.
 * @throws ApiError 409 if the guest refuses it, or the project has too many sessions; 503 without a response
 */
export async function openSession(deps: Pick<Deps, 'db' | 'bus'>, desired: NewSession): Promise<store.SessionRow> {
  const { deployment: d, start } = desired
  const { row, isNew } = await store.insert(
    deps.db,
    {
      id: newId(),
      projectId: d.projectId,
      deploymentId: d.id,
      vmId: desired.vmId,
      accountId: desired.accountId,
      program: desired.program.slice(0, 200),
      tty: start.tty !== undefined,
      idleSeconds: desired.idleSeconds,
      requestKey: desired.requestKey,
    },
    mostPerProject,
  )
  if (!row) throw invalidState(`A project can have at most ${mostPerProject} open sessions. Close one first.`)
  try {
    await openIn(guestLine(deps, desired.vmId), { action: 'open', sessionId: row.id, ...start })
    return row
  } catch (cause) {
    if (isNew) await store.remove(deps.db, row.id)
    throw cause
  }
}

/** Opens the session in the guest. If the guest is full, removes sessions that have ended and tries again. */
async function openIn(line: GuestLine, request: OpenRequest): Promise<void> {
  try {
    await ask(line, request)
  } catch (cause) {
    // The guest already has the session, because an earlier request with the same Idempotency-Key has opened it.
    if (cause instanceof ApiError && cause.message.includes('it exists')) return
    if (!(cause instanceof ApiError) || !cause.message.includes('too many sessions')) throw cause
    const { sessions } = await ask(line, { action: 'list' })
    const ended = sessions.filter(({ state }) => state !== 'running')
    if (ended.length === 0) throw invalidState('The VM has 16 open sessions. Close one first.')
    await Promise.all(ended.map(({ sessionId }) => ask(line, { action: 'remove', sessionId }).catch(() => undefined)))
    await ask(line, request)
  }
}

/** Returns the requested VM, or by default the first running one. @throws ApiError */
export async function vmIdFor(sql: Sql, d: Deployment, asked: string | undefined): Promise<string> {
  if (asked !== undefined && (await isRunVm(sql, d.id, asked))) return asked
  return vmFor(d, asked).id
}

function vmFor(d: Deployment, asked: string | undefined): Deployment['vms'][number] {
  const live = d.vms.filter(vm => vm.want !== 'absent' && (vm.healthy || vm.observedState === 'running'))
  const vm = asked === undefined ? live[0] : live.find(({ id }) => id === asked)
  if (vm) return vm
  if (asked !== undefined && !d.vms.some(({ id }) => id === asked))
    throw invalidField('vm_id', 'is not a VM of this deployment')
  throw invalidState('The deployment has no running VM. Wait until it is running, or activate it.')
}

/** Sends a request to the guest like `GuestLine.ask`, and converts its errors to API errors. */
export async function ask<A extends Parameters<GuestLine['ask']>[0]['action']>(
  line: GuestLine,
  request: Parameters<typeof line.ask<A>>[0],
) {
  return line.ask<A>(request).catch((cause: unknown) => Promise.reject(faultForClient(cause)))
}

export function faultForClient(cause: unknown): unknown {
  if (cause instanceof SessionGone) return notFound()
  if (cause instanceof Unreachable)
    return new ApiError('unavailable', "The VM's host does not answer, or the VM is paused. Try again.", { cause })
  return cause instanceof BusError && cause.remoteCode !== undefined ? refusal(cause) : cause
}

function refusal(cause: BusError): ApiError {
  if (cause.remoteCode === 'unsupported_by_hypervisor')
    return new ApiError('unsupported_by_hypervisor', 'The hypervisor of this VM does not support sessions on its host.')
  if (cause.message.includes('unknown verb'))
    return invalidState('The VM was started by an older version of Mote. Deploy the app again to get sessions.')
  return invalidState(cause.message)
}
