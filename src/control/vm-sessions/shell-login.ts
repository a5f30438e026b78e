/** Checks logins of OpenSSH clients to the VMs of an app. The SSH user name is `<app>` or `<app>.<project>`. */
import type { TunnelLogin } from '../../contract/gateway.ts'
import { newId } from '../../lib/ids.ts'
import { sshFingerprint } from '../auth/index.ts'
import type { Deps } from '../base/deps.ts'
import { grantMs, noteUse, type Person, personOfToken, writeGrant } from '../bastion/index.ts'
import { ApiError } from '../http/errors.ts'
import type { Security } from '../http/ports.ts'
import * as store from './shell-store.ts'

type LoginDeps = Pick<Deps, 'db' | 'vault' | 'clock'> & { readonly security: Security }

interface Reached {
  readonly person: Person
  readonly app: store.NamedApp
}

/** Returns a grant for the app that this login may access; null if it may access none. */
export const appLogins = (deps: LoginDeps) => async (login: TunnelLogin) => {
  const { credential } = login
  const [app = '', project] = login.user.split('.', 2)
  const named = { app, project: project ?? null }
  const reached =
    credential.kind === 'token'
      ? await byToken(deps, credential.token, named, login.ip)
      : await byKey(deps, credential.publicKey, named)
  if (!reached) return null
  const { person } = reached
  const proven = credential.kind === 'token' || credential.proven
  if (proven) await deps.db.tx(tx => noteUse(tx, person))
  const { accountId, via, viaId } = person
  const { projectId, appId: target } = reached.app
  const expiresMs = deps.clock.now().getTime() + (proven ? grantMs : 0)
  return writeGrant(deps.vault, 'app.shell', { accountId, projectId, target, via, viaId, expiresMs })
}

interface Named {
  readonly app: string
  readonly project: string | null
}

async function byKey({ db }: LoginDeps, publicKey: string, { app, project }: Named): Promise<Reached | undefined> {
  const found = await store.ofKey(db, sshFingerprint(publicKey), app, project)
  const [first] = found
  // If the SSH user name has no project, the app name must be unique among the account's projects.
  if (!first || found.length > 1) return undefined
  return { app: first, person: { accountId: first.accountId, via: 'key', viaId: first.keyId } }
}

async function byToken(
  { db, security }: LoginDeps,
  token: string,
  { app, project }: Named,
  ip: string,
): Promise<Reached | undefined> {
  const accountId = await ownerOf(security, token, ip)
  const reached: Reached[] = []
  for (const candidate of accountId === undefined ? [] : await store.ofAccount(db, accountId, app, project)) {
    // Check the token for each project, because it may be restricted to one.
    const person = await personOfToken(security, token, { projectId: candidate.projectId, scope: 'exec', ip })
    if (person) reached.push({ person, app: candidate })
  }
  return reached.length === 1 ? reached[0] : undefined
}

async function ownerOf(security: Security, token: string, ip: string): Promise<string | undefined> {
  try {
    return (await security.authenticate(token, { ip, userAgent: 'ssh', requestId: newId() })).userId
  } catch (cause) {
    if (cause instanceof ApiError) return undefined
    throw cause
  }
}
