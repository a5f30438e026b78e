/** Serves the SSH bastions of gateways: opens sessions in VMs, and forwards requests about them to the guests. */
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { BusError, type Subscription } from '../../bus/bus.ts'
import { encodeOutput, type SessionAnswer, type SessionOutput, type SessionRequest } from '../../contract/agent.ts'
import {
  decodeShellInput,
  ShellAsk,
  type ShellAskAnswer,
  type ShellInput,
  ShellOpen,
  type ShellOpenAnswer,
  shellSubjects,
} from '../../contract/shell.ts'
import { createGenerationalCache } from '../../lib/generational-cache.ts'
import { seconds } from '../../lib/duration.ts'
import { writeAudit } from '../audit/index.ts'
import type { Deps } from '../base/deps.ts'
import { credentialOf, credentialText, isGranted, type Person, readGrant, readSigned, sign } from '../bastion/index.ts'
import { findDeployment } from '../deployments/index.ts'
import { ApiError } from '../http/errors.ts'
import { recordEnd } from './end.ts'
import { type GuestLine, guestLine, SessionGone, Unreachable } from './guest-line.ts'
import { openSession, vmIdFor } from './open.ts'
import * as shellStore from './shell-store.ts'
import * as store from './store.ts'

/** Time after which a session ends if its bastion is gone. */
const idleSeconds = 300
/** Interval at which the user's permissions are checked and the session's `seen_at` is updated. */
const checkMs = seconds(10)
const mostKnown = 10_000

/** Starts bash if the image has it. Every image with a shell has /bin/sh. */
const loginShell = ['/bin/sh', '-c', 'if command -v bash >/dev/null 2>&1; then exec bash -l; else exec /bin/sh -l; fi']

const Ticket = Type.Object({
  sessionId: Type.String(),
  vmId: Type.String(),
  projectId: Type.String(),
  accountId: Type.String(),
  via: Type.Enum(['pat', 'key', 'session']),
  viaId: Type.String(),
})
type Ticket = Static<typeof Ticket>

type ShellDeps = Pick<Deps, 'db' | 'bus' | 'vault' | 'clock'>

interface Known {
  readonly line: GuestLine
  checkedMs: number
}

export async function startShellReceiver(deps: ShellDeps): Promise<Subscription> {
  const known = createGenerationalCache<Known>(mostKnown)
  const opens = await deps.bus.serve(
    shellSubjects.open,
    async (data): Promise<ShellOpenAnswer> => open(deps, Value.Parse(ShellOpen, data)),
    { group: 'control' },
  )
  const asks = await deps.bus.serve(
    shellSubjects.ask,
    async (data): Promise<ShellAskAnswer | Uint8Array> => {
      const { ticket, request } = data instanceof Uint8Array ? inputOf(data) : Value.Parse(ShellAsk, data)
      const facts = readSigned(deps.vault, 'app.shell-session', Ticket, ticket)
      return facts
        ? pass(deps, known, facts, request)
        : { reason: 'Your login has expired or is no longer valid. Log in again.' }
    },
    { group: 'control' },
  )
  return {
    async stop() {
      await opens.stop()
      await asks.stop()
    },
  }
}

/**
 * A request of a bastion about its session. Input that the bastion sent as bytes is forwarded as bytes, without a
 * conversion to base64 text.
 */
type Request = SessionRequest | ByteInput
type ByteInput = Omit<ShellInput, 'ticket'>

function inputOf(message: Uint8Array): { readonly ticket: string; readonly request: ByteInput } {
  const { ticket, ...request } = decodeShellInput(message)
  return { ticket, request }
}

async function open(deps: ShellDeps, { grant: text, what, tty, env }: ShellOpen): Promise<ShellOpenAnswer> {
  const { db, vault, clock } = deps
  const grant = readGrant(vault, 'app.shell', text, clock.now())
  if (!grant || grant.isOld || !(await isGranted(db, grant)))
    return { reason: 'Your login has expired or is no longer valid. Log in again.' }
  const app = await shellStore.active(db, grant.target)
  if (!app || app.projectId !== grant.projectId) return { reason: 'The app was deleted.' }
  const { activeId } = app
  const deployment = activeId === null ? undefined : await findDeployment(db, app.projectId, app.name, activeId)
  if (!deployment) return { reason: 'The app has no deployment. Deploy it first.' }
  try {
    const vmId = await vmIdFor(db, deployment, undefined)
    const { program, start } = startOf(what)
    const row = await openSession(deps, {
      accountId: grant.accountId,
      deployment,
      vmId,
      program,
      idleSeconds,
      requestKey: null,
      start: { ...start, ...(tty ? { tty } : {}), ...(env ? { env } : {}) },
    })
    await audit(deps, grant, row)
    const { accountId, via, viaId, projectId } = grant
    const ticket: Ticket = { sessionId: row.id, vmId, projectId, accountId, via, viaId }
    return { ticket: sign(vault, 'app.shell-session', ticket), sessionId: row.id, takesBytes: true }
  } catch (cause) {
    if (cause instanceof ApiError) return { reason: cause.message }
    throw cause
  }
}

function startOf(what: ShellOpen['what']) {
  switch (what.kind) {
    case 'shell':
      return { program: 'ssh', start: { command: loginShell, input: true } }
    case 'command':
      return { program: 'ssh: sh', start: { command: ['/bin/sh', '-c', what.command], input: true } }
    case 'sftp':
      return { program: 'ssh: sftp', start: { command: ['sftp'], fileTool: true, input: true } }
    case 'port':
      return { program: `ssh: tcp:${what.port}`, start: { port: what.port, input: true } }
    case 'socket':
      return { program: `ssh: unix:${what.path}`, start: { socket: what.path, input: true } }
  }
}

const audit = (
  { db }: ShellDeps,
  person: Person & { readonly projectId: string },
  { deploymentId, id, vmId, program, tty }: store.SessionRow,
) =>
  db.tx(async tx => {
    const { accountId: userId, projectId } = person
    writeAudit(
      tx,
      { userId, projectId, via: credentialOf(person), ip: undefined, requestId: undefined },
      {
        action: 'vm.session_opened',
        resourceType: 'deployment',
        resourceId: deploymentId,
        details: { session_id: id, vm_id: vmId, program, tty, by: credentialText(person) },
      },
    )
  })

/** Forwards a request to the guest, and records the session's end or removal if the response reports it. */
async function pass(
  deps: ShellDeps,
  known: ReturnType<typeof createGenerationalCache<Known>>,
  ticket: Ticket,
  request: Request,
): Promise<ShellAskAnswer | Uint8Array> {
  const { sessionId, vmId } = ticket
  if (
    !('sessionId' in request) ||
    ('action' in request && request.action === 'open') ||
    request.sessionId !== sessionId
  )
    return { reason: 'The request is about another session.' }
  const entry = known.get(sessionId) ?? { line: guestLine(deps, vmId), checkedMs: -Infinity }
  known.set(sessionId, entry)
  const nowMs = deps.clock.monotonicMs()
  // Check the user's permission now and then. A session without permission is not touched any more, so its idle
  // time-out ends it.
  if (nowMs - entry.checkedMs > checkMs) {
    if (!(await isGranted(deps.db, ticket)))
      return { reason: 'Your login has expired or is no longer valid. Log in again.' }
    entry.checkedMs = nowMs
    await store.touch(deps.db, sessionId)
  }
  try {
    const answer = await answerOf(entry.line, request)
    const end = 'action' in answer ? (answer.action === 'read' ? answer.end : null) : answer.end
    if (end) await recordEnd(deps.db, sessionId, { outcome: end.reason, code: end.code })
    if (!('action' in answer)) return encodeOutput(answer)
    if (answer.action === 'remove') await store.setRemoved(deps.db, sessionId)
    return { answer }
  } catch (cause) {
    if (cause instanceof Unreachable) return { retry: true }
    if (cause instanceof SessionGone) return { reason: 'The session no longer exists.' }
    if (cause instanceof BusError && cause.remoteCode !== undefined) return { reason: cause.message }
    throw cause
  }
}

async function answerOf(line: GuestLine, request: Request): Promise<SessionAnswer | SessionOutput> {
  if (!('action' in request)) {
    const { sessionId, offset, data } = request
    return { action: 'input', receivedBytes: await line.input({ sessionId, offset }, [data]) }
  }
  return request.action === 'read' && request.bytes ? line.read(request) : line.ask(request)
}
