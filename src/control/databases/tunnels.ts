/** Answers SSH bastions: whether a login may open a tunnel, and where the tunnel leads. */
import { Value } from 'typebox/value'
import type { Subscription } from '../../bus/bus.ts'
import {
  TunnelLogin,
  type TunnelLoginAnswer,
  TunnelOpen,
  type TunnelOpenAnswer,
  gatewaySubjects,
} from '../../contract/gateway.ts'
import { hours } from '../../lib/duration.ts'
import { isUuid, newId } from '../../lib/ids.ts'
import { writeAudit } from '../audit/index.ts'
import { sshFingerprint } from '../auth/index.ts'
import type { Deps } from '../base/deps.ts'
import { ApiError } from '../http/errors.ts'
import type { Security } from '../http/ports.ts'
import { startBastionKeyReceiver } from './bastion-keys.ts'
import { readGrant, writeGrant } from './grant.ts'
import { hostOf } from './rules.ts'
import * as store from './store.ts'
import { isTunnelPassword, takeTunnelPassword } from './tunnel-password.ts'
import * as tunnels from './tunnel-store.ts'
import type { TunnelTarget } from './tunnel-store.ts'
import { databasePort } from './view.ts'

/** An older connection opens no new tunnels. */
const grantMs = hours(12)

type TunnelDeps = Pick<Deps, 'db' | 'bus' | 'vault' | 'clock'> & { readonly security: Security }

export async function startTunnelReceiver(deps: TunnelDeps): Promise<Subscription> {
  const logins = await deps.bus.serve(
    gatewaySubjects.tunnelLogin,
    async (data): Promise<TunnelLoginAnswer> => ({ grant: await logIn(deps, Value.Parse(TunnelLogin, data)) }),
    { group: 'control' },
  )
  const opens = await deps.bus.serve(
    gatewaySubjects.tunnelOpen,
    async (data): Promise<TunnelOpenAnswer> => open(deps, Value.Parse(TunnelOpen, data)),
    { group: 'control' },
  )
  const keys = await startBastionKeyReceiver(deps)
  return {
    async stop() {
      await keys.stop()
      await logins.stop()
      await opens.stop()
    },
  }
}

interface Person {
  readonly accountId: string
  readonly via: 'pat' | 'key' | 'session'
  readonly viaId: string
}

async function logIn(deps: TunnelDeps, login: TunnelLogin): Promise<string | null> {
  const target = isUuid(login.user) ? await tunnels.target(deps.db, login.user) : undefined
  const { credential } = login
  // The token is checked even without such a database, so that both cases take the same time and both count as
  // attempts.
  const person =
    credential.kind === 'token'
      ? await bySecret(deps, credential.token, target, login)
      : await byKey(deps, credential.publicKey, target)
  if (!target || !person) return null
  const proven = credential.kind === 'token' || credential.proven
  if (proven) await deps.db.tx(tx => recordLogin(tx, target, person, login.ip))
  const { accountId, via, viaId } = person
  const expiresMs = deps.clock.now().getTime() + (proven ? grantMs : 0)
  return writeGrant(deps.vault, {
    accountId,
    via,
    viaId,
    expiresMs,
    projectId: target.projectId,
    target: login.user,
  })
}

/** Accepts a one-time password or an access token. */
async function bySecret(
  deps: TunnelDeps,
  secret: string,
  target: TunnelTarget | undefined,
  { user, ip }: TunnelLogin,
): Promise<Person | undefined> {
  if (!isTunnelPassword(secret)) return byToken(deps, secret, target, ip)
  if (!target) return undefined
  const person = await takeTunnelPassword(deps.db, deps.vault, secret, user, deps.clock.now())
  // The right to the database may have ended after the password was created.
  return person && (await tunnels.isGranted(deps.db, person)) ? person : undefined
}

async function byToken(
  { security }: TunnelDeps,
  token: string,
  target: TunnelTarget | undefined,
  ip: string,
): Promise<Person | undefined> {
  const origin = { ip, userAgent: 'ssh', requestId: newId() }
  try {
    const { caller, project } = await security.authenticateInProject(token, target?.projectId ?? newId(), origin)
    const mayWrite = (caller.scopes.has('write') || caller.scopes.has('admin')) && project?.memberRole !== 'viewer'
    if (!project || !mayWrite || caller.via.kind !== 'pat') return undefined
    return { accountId: caller.userId, via: 'pat', viaId: caller.via.patId }
  } catch (cause) {
    if (cause instanceof ApiError) return undefined
    throw cause
  }
}

async function byKey(
  { db }: TunnelDeps,
  publicKey: string,
  target: TunnelTarget | undefined,
): Promise<Person | undefined> {
  const key = await tunnels.keyInProject(db, target?.projectId ?? newId(), sshFingerprint(publicKey))
  return key && { accountId: key.accountId, via: 'key', viaId: key.keyId }
}

async function recordLogin(
  tx: Parameters<typeof writeAudit>[0],
  target: TunnelTarget,
  { accountId, via, viaId }: Person,
  ip: string,
): Promise<void> {
  if (via === 'key') await tunnels.useKey(tx, viaId)
  const actor = { userId: accountId, projectId: target.projectId, ip, requestId: undefined }
  writeAudit(
    tx,
    { ...actor, via: credentialOf(via, viaId) },
    {
      action: 'database.tunnel',
      resourceType: 'database',
      resourceId: target.databaseId,
      details: {
        name: target.databaseName,
        branch: target.branchName,
        by: via === 'key' ? `ssh key ${viaId}` : via === 'pat' ? 'token' : 'session',
      },
    },
  )
}

const credentialOf = (via: Person['via'], id: string) =>
  via === 'pat'
    ? ({ kind: 'pat', patId: id } as const)
    : via === 'session'
      ? ({ kind: 'session', sessionId: id } as const)
      : undefined

const refuse = (reason: string, mayOpen = false): TunnelOpenAnswer => ({ endpoint: null, reason, mayOpen })

async function open(deps: TunnelDeps, desired: TunnelOpen): Promise<TunnelOpenAnswer> {
  const grant = readGrant(deps.vault, desired.grant, deps.clock.now())
  const target = grant && (await tunnels.target(deps.db, grant.target))
  if (!grant || !target || target.projectId !== grant.projectId || !(await tunnels.isGranted(deps.db, grant)))
    return refuse('sign in again')
  if (grant.isOld) return { ...refuse('sign in again', true), mayStay: true }
  const names = [
    hostOf(target.databaseName, target.projectSlug, undefined),
    hostOf(target.databaseName, target.projectSlug, target.branchName),
  ]
  if (!names.includes(desired.host) || desired.port !== databasePort)
    return refuse(`this login reaches ${names[target.isCurrent ? 0 : 1]}:${databasePort} only`)
  const { vm } = (await store.branch(deps.db, target.branchId)) ?? {}
  if (!vm?.healthy || vm.endpointHost === null || vm.endpointPort === null)
    return refuse('the database is not running', true)
  return { endpoint: { host: vm.endpointHost, port: vm.endpointPort }, reason: '', mayOpen: true }
}
