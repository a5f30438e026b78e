import { minutes } from '../../lib/duration.ts'
import type { SourceAuth } from '../builds/index.ts'
import type { Deps } from '../deps.ts'
import type { SourceHost } from './provider.ts'
import * as store from './store.ts'

/** Half of what a token lives: whoever gets one has time to use it. */
const reuseMs = minutes(30)

/**
 * A token that reads the one repository, where the app's project may use the installation; it goes to the source host
 * only. Hosts are told every few seconds, so each token is used for half an hour; none is ever written down.
 */
export function sourceAuth(deps: Pick<Deps, 'db' | 'clock'>, host: SourceHost | undefined): SourceAuth {
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
  return async ({ projectId, gitUrl, scmInstallationId: id }) => {
    if (!host || id === null || !host.owns(gitUrl) || !(await store.allowed(deps.db, projectId, id))) return undefined
    const fullName = URL.parse(gitUrl)?.pathname.replace(/^\/|\.git$/g, '') ?? ''
    return { username: 'x-access-token', password: await tokenOf(host, id, fullName) }
  }
}
