/** Client of the source host, based on GitHub's own libraries. It keeps tokens in memory for less than an hour. */
import { type TSchema, type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { seconds } from '../../lib/duration.ts'
import { once } from '../../lib/once.ts'
import type { ScmConfig } from '../base/config.ts'
import type { Deps } from '../base/deps.ts'
import { createGuard, statusOf } from '../http/guard.ts'
import { exchangeCode, listsInstallation, readsAllOf } from './installer.ts'
import type { Installation } from './store.ts'

export interface SourceHost {
  /** URL at which a user installs the integration. */
  installUrl(state: string): string
  /** Verifies the signature of a webhook delivery. @param raw the unparsed body */
  isSigned(raw: Buffer, signature: string): Promise<boolean>
  /** Returns the installation; undefined if none has that id. @throws ApiError 503 */
  installation(id: number): Promise<(Installation & { readonly changedAt: Date }) | undefined>
  /**
   * Returns whether the user to whom the source host issued this code controls the installation; false for an invalid
   * code.
   * @throws ApiError 503
   */
  isControlledBy(code: string, installationId: number): Promise<boolean>
  /** Lists the repositories of the installation. @throws ApiError 503 */
  repositories(installationId: number): Promise<readonly HostRepository[]>
  /** Returns a token that can read one repository, valid for an hour at most. @throws ApiError 503 */
  readToken(installationId: number, fullName: string): Promise<string>
  /** Sets the status of a commit. @throws ApiError 503 */
  report(installationId: number, status: CommitStatus): Promise<void>
  /** Returns whether the repository is on this host. */
  owns(gitUrl: string): boolean
}

export interface CommitStatus {
  readonly fullName: string
  readonly commit: string
  readonly state: 'pending' | 'success' | 'failure' | 'error'
  readonly context: string
  readonly description: string
  readonly url: string
}

const HostRepository = Type.Object({
  id: Type.Integer(),
  full_name: Type.String(),
  private: Type.Boolean(),
  default_branch: Type.String(),
  clone_url: Type.String(),
  html_url: Type.String(),
})
export type HostRepository = Static<typeof HostRepository>

const Repositories = Type.Object({ repositories: Type.Array(HostRepository) })
const InstallationAnswer = Type.Object({
  id: Type.Integer(),
  updated_at: Type.String(),
  suspended_at: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  account: Type.Object({
    login: Type.String(),
    type: Type.String(),
    avatar_url: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  }),
})
const TokenAnswer = Type.Object({ token: Type.String({ minLength: 1 }) })

const perPage = 100
const mostPages = 10

export function githubHost(config: ScmConfig, clock: Deps['clock']): SourceHost {
  const client = once(async () => {
    const [{ App }, { Octokit }] = await Promise.all([import('@octokit/app'), import('@octokit/core')])
    const Limited = Octokit.defaults({ baseUrl: config.apiUrl, request: { fetch: limitedFetch } })
    const app = new App({
      appId: config.appId,
      privateKey: config.privateKey,
      webhooks: { secret: config.webhookSecret },
      oauth: { clientId: config.clientId, clientSecret: config.clientSecret },
      Octokit: Limited,
    })
    return Object.assign(app, { asPerson: (token: string) => new Limited({ auth: token }) })
  })
  const webhooks = once(async () => {
    const { Webhooks } = await import('@octokit/webhooks')
    return new Webhooks({ secret: config.webhookSecret })
  })
  const guard = createGuard(clock, undefined, 'The source host')
  const ask = <S extends TSchema>(schema: S, call: () => Promise<{ readonly data: unknown }>): Promise<Static<S>> =>
    guard(async () => Value.Parse(schema, (await call()).data) as Static<S>)
  return {
    installUrl: state => `${config.webUrl}/apps/${config.slug}/installations/new?state=${encodeURIComponent(state)}`,
    isSigned: async (raw, signature) => {
      const hooks = await webhooks()
      return hooks.verify(raw.toString('utf8'), signature).catch(() => false)
    },
    async installation(id) {
      const app = await client()
      const found = await guard(async () => {
        const path = 'GET /app/installations/{installation_id}'
        return app.octokit.request(path, { installation_id: id }).catch((cause: unknown) => {
          if (statusOf(cause) === 404) return undefined
          throw cause
        })
      })
      if (!found) return undefined
      const data = Value.Parse(InstallationAnswer, found.data)
      return {
        id: data.id,
        login: data.account.login,
        accountType: data.account.type,
        avatarUrl: data.account.avatar_url ?? null,
        state: data.suspended_at ? 'suspended' : 'active',
        changedAt: new Date(data.updated_at),
      }
    },
    async isControlledBy(code, installationId) {
      const app = await client()
      return guard(async () => {
        const token = await exchangeCode(async () => (await app.oauth.createToken({ code })).authentication.token)
        if (token === undefined) return false
        const person = app.asPerson(token)
        if (!(await listsInstallation(person, installationId))) return false
        return readsAllOf(person, await app.getInstallationOctokit(installationId), installationId)
      })
    },
    async repositories(installationId) {
      const app = await client()
      const octokit = await guard(() => app.getInstallationOctokit(installationId))
      const found: HostRepository[] = []
      for (let page = 1; page <= mostPages; page++) {
        const { repositories } = await ask(Repositories, () =>
          octokit.request('GET /installation/repositories', { per_page: perPage, page }),
        )
        found.push(...repositories)
        if (repositories.length < perPage) break
      }
      return found
    },
    async readToken(installationId, fullName) {
      const app = await client()
      const path = 'POST /app/installations/{installation_id}/access_tokens'
      const [, name = ''] = fullName.split('/')
      const desired = { installation_id: installationId, repositories: [name] }
      const permissions = { contents: 'read' } as const
      return (await ask(TokenAnswer, () => app.octokit.request(path, { ...desired, permissions }))).token
    },
    async report(installationId, { fullName, commit, ...status }) {
      const app = await client()
      const octokit = await guard(() => app.getInstallationOctokit(installationId))
      const [owner = '', repo = ''] = fullName.split('/')
      const { state, context, description, url } = status
      const body = { owner, repo, sha: commit, state, context, description, target_url: url }
      await guard(() => octokit.request('POST /repos/{owner}/{repo}/statuses/{sha}', body))
    },
    owns: gitUrl => URL.parse(gitUrl)?.origin === URL.parse(config.webUrl)?.origin,
  }
}

/**
 * Abort requests to the source host after five seconds. A time limit of `createGuard` would only stop waiting for the
 * response, and leave the request running.
 */
const limitedFetch: typeof fetch = (input, init) =>
  fetch(input, {
    ...init,
    signal: AbortSignal.any([AbortSignal.timeout(seconds(5)), ...(init?.signal ? [init.signal] : [])]),
  })
