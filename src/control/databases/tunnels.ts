/**
 * Answers requests of SSH bastions: whether a user may log in to a database, and to which address the tunnels of the
 * login lead.
 */
import { Value } from 'typebox/value'
import type { Subscription } from '../../bus/bus.ts'
import { type TunnelLogin, TunnelOpen, type TunnelOpenAnswer, gatewaySubjects } from '../../contract/gateway.ts'
import { isUuid, newId } from '../../lib/ids.ts'
import { writeAudit } from '../audit/index.ts'
import { sshFingerprint } from '../auth/index.ts'
import {
  credentialOf,
  credentialText,
  grantMs,
  isGranted,
  noteUse,
  type Person,
  personOfKey,
  personOfToken,
  readGrant,
  writeGrant,
} from '../bastion/index.ts'
import type { Deps } from '../base/deps.ts'
import type { Security } from '../http/ports.ts'
import { hostOf } from './rules.ts'
import * as store from './store.ts'
import { isTunnelPassword, takeTunnelPassword } from './tunnel-password.ts'
import * as tunnels from './tunnel-store.ts'
import type { TunnelTarget } from './tunnel-store.ts'
import { databasePort } from './view.ts'

type TunnelDeps = Pick<Deps, 'db' | 'bus' | 'vault' | 'clock'>

export async function startTunnelReceiver(deps: TunnelDeps): Promise<Subscription> {
  return deps.bus.serve(
    gatewaySubjects.tunnelOpen,
    async (data): Promise<TunnelOpenAnswer> => open(deps, Value.Parse(TunnelOpen, data)),
    { group: 'control' },
  )
}

/** Checks logins whose user name is the id of a database or a branch. */
export const databaseLogins = (deps: TunnelDeps & { readonly security: Security }) => async (login: TunnelLogin) => {
  const target = isUuid(login.user) ? await tunnels.target(deps.db, login.user) : undefined
  const { credential } = login
  // The token is checked even if the database does not exist, so that both cases take the same time and count as
  // attempts.
  const person =
    credential.kind === 'token'
      ? await bySecret(deps, credential.token, target, login)
      : await personOfKey(deps.db, target?.projectId ?? newId(), sshFingerprint(credential.publicKey))
  if (!target || !person) return null
  const proven = credential.kind === 'token' || credential.proven
  if (proven) await deps.db.tx(tx => recordLogin(tx, target, person, login.ip))
  const { accountId, via, viaId } = person
  const expiresMs = deps.clock.now().getTime() + (proven ? grantMs : 0)
  const grant = { accountId, via, viaId, expiresMs, projectId: target.projectId, target: login.user }
  return writeGrant(deps.vault, 'database.tunnel', grant)
}

/** Finds the person by a password for one login or by an access token. */
async function bySecret(
  deps: TunnelDeps & { readonly security: Security },
  secret: string,
  target: TunnelTarget | undefined,
  { user, ip }: TunnelLogin,
): Promise<Person | undefined> {
  const asked = { projectId: target?.projectId ?? newId(), scope: 'write', ip } as const
  if (!isTunnelPassword(secret)) return personOfToken(deps.security, secret, asked)
  if (!target) return undefined
  const person = await takeTunnelPassword(deps.db, deps.vault, secret, user, deps.clock.now())
  // The person may have lost access to the database after the password was created.
  return person && (await isGranted(deps.db, person)) ? person : undefined
}

async function recordLogin(
  tx: Parameters<typeof writeAudit>[0],
  target: TunnelTarget,
  person: Person,
  ip: string,
): Promise<void> {
  await noteUse(tx, person)
  writeAudit(
    tx,
    {
      userId: person.accountId,
      projectId: target.projectId,
      ip,
      requestId: undefined,
      via: credentialOf(person),
    },
    {
      action: 'database.tunnel',
      resourceType: 'database',
      resourceId: target.databaseId,
      details: { name: target.databaseName, branch: target.branchName, by: credentialText(person) },
    },
  )
}

const refuse = (reason: string, mayOpen = false): TunnelOpenAnswer => ({ endpoint: null, reason, mayOpen })

async function open(deps: TunnelDeps, desired: TunnelOpen): Promise<TunnelOpenAnswer> {
  const grant = readGrant(deps.vault, 'database.tunnel', desired.grant, deps.clock.now())
  const target = grant && (await tunnels.target(deps.db, grant.target))
  if (!grant || !target || target.projectId !== grant.projectId || !(await isGranted(deps.db, grant)))
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
