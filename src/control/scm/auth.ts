import { minutes } from '../../lib/duration.ts'
import { type SourceAuth, type SourceCredential, gitPlace } from '../builds/index.ts'
import type { Deps } from '../base/deps.ts'
import { sealedCredential } from './credential-store.ts'
import type { SourceHost } from './provider.ts'
import * as store from './store.ts'

/** How long a cached token is given out: half of its lifetime, so that its receiver has time to use it. */
const reuseMs = minutes(30)

/**
 * Returns a function that chooses the credential for a repository: the app's own one, otherwise a token that can read
 * only this repository, if the app's project may use the installation. Tokens are sent only to the source host. They
 * are kept in memory for half an hour, because builders request one every few seconds, and are never stored.
 */
export function sourceAuth(deps: Pick<Deps, 'db' | 'clock' | 'vault'>, host: SourceHost | undefined): SourceAuth {
  const tokens = new Map<string, { readonly token: Promise<string>; readonly untilMs: number }>()
  const tokenOf = (source: SourceHost, id: number, fullName: string): Promise<string> => {
    const nowMs = deps.clock.monotonicMs()
    for (const [key, { untilMs }] of tokens) if (untilMs < nowMs) tokens.delete(key)
    const key = `${id} ${fullName}`
    const known = tokens.get(key)
    if (known) return known.token
    const token = source.readToken(id, fullName)
    tokens.set(key, { token, untilMs: nowMs + reuseMs })
    token.catch(() => tokens.delete(key))
    return token
  }
  return async ({ appId, projectId, gitUrl, scmInstallationId: id }) => {
    const own = await ownCredential(deps, appId, gitUrl)
    if (own) return own
    if (!host || id === null || !host.owns(gitUrl) || !(await store.allowed(deps.db, projectId, id))) return undefined
    const fullName = URL.parse(gitUrl)?.pathname.replace(/^\/|\.git$/g, '') ?? ''
    return { username: 'x-access-token', password: await tokenOf(host, id, fullName) }
  }
}

/**
 * Returns the app's own credential, if it was created for the host and the protocol (SSH or HTTPS) of the repository.
 */
async function ownCredential(
  { db, vault }: Pick<Deps, 'db' | 'vault'>,
  appId: string,
  gitUrl: string,
): Promise<SourceCredential | undefined> {
  const place = gitPlace(gitUrl)
  const found = place && (await sealedCredential(db, appId))
  if (!found || found.host !== place.host) return undefined
  const isKey = found.kind === 'ssh_key'
  if (isKey !== (place.transport === 'ssh')) return undefined
  const secret = vault.open('git.credential', found.secret)
  return isKey
    ? { privateKey: secret, knownHosts: found.knownHosts ?? '' }
    : { username: found.username, password: secret }
}
