import { createHash } from 'node:crypto'
import { signalNumbers } from '../../contract/session-stream.ts'
import type { Sql } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { bastionKeys, hostKeyOptions } from '../bastion/index.ts'
import type { Deployment } from '../deployments/index.ts'
import { ApiError, invalidField, invalidState, notFound } from '../http/errors.ts'
import { type Call, feature, type Handlers } from '../http/operation.ts'
import { attachTo } from './attach.ts'
import { recordEnd } from './end.ts'
import { guestLine } from './guest-line.ts'
import { deploymentOf, type JobCall } from './job.ts'
import { ask, openSession, vmIdFor } from './open.ts'
import { defaultIdleSeconds, type VmSession } from './resources.ts'
import { vmSessionOperations } from './schema.ts'
import { openFileSession } from './file-session.ts'
import { readProcesses } from './process-list.ts'
import * as shellStore from './shell-store.ts'
import * as store from './store.ts'

type Operations = typeof vmSessionOperations
type SessionDeps = Pick<Deps, 'db' | 'bus' | 'clock' | 'log' | 'config'>

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
  listVmProcesses: {
    read: async call => {
      const deployment = await deploymentOf(deps.db, call)
      const vmId = await vmIdFor(deps.db, deployment, call.query.vm_id)
      const place = { deployment, vmId, caller: call.caller, user: undefined, signal: call.signal }
      await using session = await openFileSession(deps, place, {
        command: ['processes', '/proc'],
        encodedArguments: false,
      })
      return { vm_id: vmId, processes: await readProcesses(session.output()) }
    },
  },
  getAppSsh: {
    read: async ({ project, params }) => {
      const [app] = await shellStore.inProject(deps.db, project.id, params.app_name)
      if (!app) throw notFound()
      const { sshHost: host, sshPort: port } = deps.config.databases
      const keys = await bastionKeys(deps.db, deps.clock.now())
      const user = `${params.app_name}.${app.projectSlug}`
      return {
        ssh_host: host,
        ssh_port: port,
        ssh_user: user,
        ssh_host_keys: keys,
        ssh_command: `ssh ${hostKeyOptions(keys)} -p ${port} ${user}@${host}`,
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
  const { body, caller } = call
  const what = programOf(body)
  const idleSeconds = body.idle_timeout_seconds ?? defaultIdleSeconds
  return openSession(deps, {
    accountId: caller.userId,
    deployment: d,
    vmId: await vmIdFor(deps.db, d, body.vm_id ?? undefined),
    program: what.program,
    idleSeconds: idleSeconds === 0 ? null : idleSeconds,
    requestKey: requestKeyOf(call),
    start: {
      ...what.start,
      ...(body.env ? { env: body.env } : {}),
      ...(body.cwd == null ? {} : { cwd: body.cwd }),
      ...(body.user == null ? {} : { user: body.user }),
      ...(body.tty ? { tty: body.tty } : {}),
      ...(body.stdin ? { input: true } : {}),
    },
  })
}

type OpenBody = Call<Operations['openVmSession']>['body']

/**
 * Returns the program that the request names.
 * @throws ApiError 400 unless exactly one of `command`, `port` and `file` is given
 */
function programOf({ command, port, file, tty }: OpenBody) {
  const given = [command, port, file].filter(one => one !== undefined && one !== null)
  if (given.length !== 1) throw invalidField('command', 'exactly one of command, port and file is required')
  if (tty && command === undefined) throw invalidField('tty', 'needs a command')
  if (port != null) return { program: `tcp:${port}`, start: { port, input: true } }
  if (file != null) return { program: `file:${file.action} ${file.path}`, start: fileTool(file) }
  for (const argument of command ?? []) withoutNul('command', argument)
  return { program: command?.[0] ?? '', start: { command: command ?? [] } }
}

/** Returns the arguments of a file tool (guest/files.c). */
function fileTool({ action, path, to, mode, depth, recursive }: NonNullable<OpenBody['file']>) {
  if ((action === 'move') !== (to != null)) throw invalidField('file.to', 'is required with move, and only there')
  const [, argument] = [withoutNul('file.path', path), withoutNul('file.to', to ?? '')]
  const all = recursive ? '1' : '0'
  const options = { move: argument, write: mode ?? '', list: String(depth ?? 0), remove: all, watch: all }
  const option = Object.hasOwn(options, action) ? options[action as keyof typeof options] : ''
  const command = [action, path, ...(option === '' ? [] : [option])]
  return { command, fileTool: true, input: action === 'write' || action === 'unpack' }
}

function withoutNul(field: string, value: string): string {
  if (value.includes('\0')) throw invalidField(field, 'must not contain NUL')
  return value
}

/**
 * Returns the hash of a request's Idempotency-Key and account; null without the header. A repeated request with the
 * same key returns the session of the first one.
 */
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
      // Ignore the error if the program has already ended or the VM is gone.
      if (cause instanceof ApiError && (cause.code === 'not_found' || cause.message.includes('it has ended')))
        return undefined
      throw cause
    },
  )
  // Record the end now. The sweep removes the session in the guest later.
  await recordEnd(deps.db, row.id, killed ? { outcome: 'signaled', code: 9 } : { outcome: 'lost', code: null })
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
