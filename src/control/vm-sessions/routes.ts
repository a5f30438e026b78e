import { createHash } from 'node:crypto'
import { BusError } from '../../bus/bus.ts'
import { signalNumbers } from '../../contract/session-stream.ts'
import { newId } from '../../lib/ids.ts'
import type { Sql } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { findDeployment, type Deployment } from '../deployments/index.ts'
import { ApiError, invalidField, invalidState, notFound } from '../http/errors.ts'
import { type Call, feature, type Handlers } from '../http/operation.ts'
import { attachTo } from './attach.ts'
import { recordEnd } from './end.ts'
import { type GuestLine, guestLine, SessionGone, Unreachable } from './guest-line.ts'
import { defaultIdleSeconds, type VmSession } from './resources.ts'
import { vmSessionOperations } from './schema.ts'
import * as store from './store.ts'

/** Open sessions of one project. A guest has at most 16. */
const mostPerProject = 200

type Operations = typeof vmSessionOperations
type SessionDeps = Pick<Deps, 'db' | 'bus' | 'clock' | 'log'>

export const vmSessionFeature = (deps: SessionDeps) => feature(vmSessionOperations, handlers(deps))

const handlers = (deps: SessionDeps): Handlers<Operations> => ({
  openVmSession: {
    write: async call => {
      const d = await deploymentOf(deps.db, call)
      const opened = await open(deps, d, call)
      return async () => {
        call.audit({
          action: 'vm.session_opened',
          resourceType: 'deployment',
          resourceId: d.id,
          details: { session_id: opened.id, vm_id: opened.vmId, program: opened.program, tty: opened.tty },
        })
        return viewOf(opened)
      }
    },
  },
  listVmSessions: {
    read: async call => (await store.ofDeployment(deps.db, (await deploymentOf(deps.db, call)).id)).map(viewOf),
  },
  attachVmSession: {
    socket: async call => {
      const row = await sessionOf(deps.db, call)
      if (row.removed) throw invalidState(endedText(row))
      return attachTo(deps, row, { stdout: call.query.stdout ?? 0, stderr: call.query.stderr ?? 0 })
    },
  },
  signalVmSession: {
    write: async call => {
      const row = await sessionOf(deps.db, call)
      if (row.endedAt) throw invalidState(endedText(row))
      const { signal } = call.body
      await ask(guestLine(deps, row.vmId), { action: 'signal', sessionId: row.id, number: signalNumbers[signal] })
      return async () => {
        call.audit(noteOf('vm.session_signaled', row, { signal }))
        return { status: 'sent' as const }
      }
    },
  },
  closeVmSession: {
    write: async call => {
      const row = await sessionOf(deps.db, call)
      if (!row.endedAt) await kill(deps, row)
      return async () => {
        call.audit(noteOf('vm.session_closed', row))
        return { status: 'closed' as const }
      }
    },
  },
})

async function open(
  deps: SessionDeps,
  d: Deployment,
  call: Call<Operations['openVmSession']>,
): Promise<store.SessionRow> {
  const { body, caller, project } = call
  const what = programOf(body)
  const vm = vmFor(d, body.vm_id ?? undefined)
  const idleSeconds = body.idle_timeout_seconds ?? defaultIdleSeconds
  const { row, isNew } = await store.insert(
    deps.db,
    {
      id: newId(),
      projectId: project.id,
      deploymentId: d.id,
      vmId: vm.id,
      accountId: caller.userId,
      program: what.program.slice(0, 200),
      tty: Boolean(body.tty),
      idleSeconds: idleSeconds === 0 ? null : idleSeconds,
      requestKey: requestKeyOf(call),
    },
    mostPerProject,
  )
  if (!row) throw invalidState(`A project has at most ${mostPerProject} open sessions. Close one first.`)
  const request = {
    action: 'open',
    sessionId: row.id,
    ...what.start,
    ...(body.env ? { env: body.env } : {}),
    ...(body.cwd == null ? {} : { cwd: body.cwd }),
    ...(body.user == null ? {} : { user: body.user }),
    ...(body.tty ? { tty: body.tty } : {}),
    ...(body.stdin ? { input: true } : {}),
  } as const
  try {
    await openIn(guestLine(deps, vm.id), request)
    return row
  } catch (cause) {
    if (isNew) await store.remove(deps.db, row.id)
    throw cause
  }
}

type OpenBody = Call<Operations['openVmSession']>['body']

/** @throws ApiError 400 unless exactly one of `command`, `port` and `file` is given */
function programOf({ command, port, file, tty }: OpenBody) {
  const given = [command, port, file].filter(one => one !== undefined && one !== null)
  if (given.length !== 1) throw invalidField('command', 'is required, or else one of port and file')
  if (tty && command === undefined) throw invalidField('tty', 'needs a command')
  if (port != null) return { program: `tcp:${port}`, start: { port, input: true } }
  if (file != null) return { program: `file:${file.action} ${file.path}`, start: fileTool(file) }
  for (const argument of command ?? []) withoutNul('command', argument)
  return { program: command?.[0] ?? '', start: { command: command ?? [] } }
}

/** Arguments of the tool (guest/files.c). */
function fileTool({ action, path, to, mode, depth, recursive }: NonNullable<OpenBody['file']>) {
  if ((action === 'move') !== (to != null)) throw invalidField('file.to', 'is required with move, and only there')
  const [, argument] = [withoutNul('file.path', path), withoutNul('file.to', to ?? '')]
  const options = { move: argument, write: mode ?? '', list: String(depth ?? 0), remove: recursive ? '1' : '0' }
  const option = Object.hasOwn(options, action) ? options[action as keyof typeof options] : ''
  const command = [action, path, ...(option === '' ? [] : [option])]
  return { command, fileTool: true, input: action === 'write' || action === 'unpack' }
}

function withoutNul(field: string, value: string): string {
  if (value.includes('\0')) throw invalidField(field, 'must not contain NUL')
  return value
}

type OpenRequest = Parameters<typeof ask<'open'>>[1]

/** Removes ended sessions if the guest has no room for another one. */
async function openIn(line: GuestLine, request: OpenRequest): Promise<void> {
  try {
    await ask(line, request)
  } catch (cause) {
    // An earlier request with the same Idempotency-Key has opened it.
    if (cause instanceof ApiError && cause.message.includes('it exists')) return
    if (!(cause instanceof ApiError) || !cause.message.includes('too many sessions')) throw cause
    const { sessions } = await ask(line, { action: 'list' })
    const ended = sessions.filter(({ state }) => state !== 'running')
    if (ended.length === 0) throw invalidState('The VM has 16 open sessions. Close one first.')
    await Promise.all(ended.map(({ sessionId }) => ask(line, { action: 'remove', sessionId }).catch(() => undefined)))
    await ask(line, request)
  }
}

/** A request that is repeated with the same Idempotency-Key opens the same session. */
function requestKeyOf({ headers, caller }: Call<Operations['openVmSession']>): Buffer | null {
  const key = headers['idempotency-key']
  return key === undefined
    ? null
    : createHash('sha256')
        .update(JSON.stringify([caller.userId, key]))
        .digest()
}

async function kill(deps: SessionDeps, row: store.SessionRow): Promise<void> {
  const line = guestLine(deps, row.vmId)
  const killed = await ask(line, { action: 'signal', sessionId: row.id, number: signalNumbers.KILL }).catch(
    (cause: unknown) => {
      // It has ended by itself, or its VM is gone.
      if (cause instanceof ApiError && (cause.code === 'not_found' || cause.message.includes('it has ended')))
        return undefined
      throw cause
    },
  )
  // The sweep frees it in the guest.
  await recordEnd(deps.db, row.id, killed ? { outcome: 'signaled', code: 9 } : { outcome: 'lost', code: null })
}

interface JobCall {
  readonly project: { readonly id: string }
  readonly params: { readonly app_name: string; readonly job_id: string }
}

async function deploymentOf(sql: Sql, { project, params }: JobCall): Promise<Deployment> {
  const d = await findDeployment(sql, project.id, params.app_name, params.job_id)
  if (!d) throw notFound()
  return d
}

async function sessionOf(
  sql: Sql,
  call: JobCall & { readonly params: { readonly session_id: string } },
): Promise<store.SessionRow> {
  const d = await deploymentOf(sql, call)
  const row = await store.byId(sql, call.params.session_id)
  if (row?.deploymentId !== d.id) throw notFound()
  return row
}

function vmFor(d: Deployment, asked: string | undefined): Deployment['vms'][number] {
  const live = d.vms.filter(vm => vm.want !== 'absent' && (vm.healthy || vm.observedState === 'running'))
  const vm = asked === undefined ? live[0] : live.find(({ id }) => id === asked)
  if (vm) return vm
  if (asked !== undefined && !d.vms.some(({ id }) => id === asked))
    throw invalidField('vm_id', 'is not a VM of this deployment')
  throw invalidState('The deployment has no running VM. Wait until it is running, or activate it.')
}

/** Like `GuestLine.ask`, with errors for the client. */
async function ask<A extends Parameters<GuestLine['ask']>[0]['action']>(
  line: GuestLine,
  request: Parameters<typeof line.ask<A>>[0],
) {
  try {
    return await line.ask<A>(request)
  } catch (cause) {
    if (cause instanceof SessionGone) throw notFound()
    if (cause instanceof Unreachable)
      throw new ApiError('unavailable', "The VM's host does not answer, or the VM is paused. Try again.", { cause })
    if (cause instanceof BusError && cause.remoteCode !== undefined) throw refusal(cause)
    throw cause
  }
}

function refusal(cause: BusError): ApiError {
  if (cause.remoteCode === 'unsupported_by_hypervisor')
    return new ApiError('unsupported_by_hypervisor', 'The hypervisor of this VM has no sessions on its host.')
  if (cause.message.includes('unknown verb'))
    return invalidState('The VM was started by an older version of Mote. Deploy the app again to get sessions.')
  return invalidState(cause.message)
}

const endedText = ({ outcome, code }: store.SessionRow) =>
  `The session has ended: ${outcome ?? 'lost'}${code === null ? '' : ` with ${code}`}. Open another one.`

const noteOf = (action: string, row: store.SessionRow, details: Readonly<Record<string, unknown>> = {}) => ({
  action,
  resourceType: 'deployment',
  resourceId: row.deploymentId,
  details: { session_id: row.id, vm_id: row.vmId, program: row.program, ...details },
})

const viewOf = (row: store.SessionRow): VmSession => ({
  id: row.id,
  vm_id: row.vmId,
  program: row.program,
  tty: row.tty,
  status: row.outcome ?? 'running',
  exit_code: row.outcome === 'exited' ? row.code : null,
  signal: row.outcome === 'signaled' ? row.code : null,
  opened_by: row.accountId,
  opened_at: row.openedAt.toISOString(),
  seen_at: row.seenAt.toISOString(),
  ended_at: row.endedAt?.toISOString() ?? null,
  idle_timeout_seconds: row.idleSeconds,
})
