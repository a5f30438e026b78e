/** A fake GitHub: the API calls that we use, and webhook requests that are signed as GitHub signs them. */
import { createHmac, generateKeyPairSync } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { startWholeApi } from '../../security/cases.ts'
import type { Identity, Reply } from '../identity.ts'
import { newId } from '../../../src/lib/ids.ts'
import type { Owner } from './billing.ts'

export const webhookSecret = "It's a Secret to Everybody"
export const installationToken = 'ghs_0123456789abcdefghijABCDEFGHIJ012345'

const oauth = { MOTE_GITHUB_CLIENT_ID: 'Iv1.0123456789abcdef', MOTE_GITHUB_CLIENT_SECRET: 'client-secret-of-the-tests' }

export interface FakeHost extends AsyncDisposable {
  readonly env: Readonly<Record<string, string>>
  readonly installations: Map<number, { readonly login: string; readonly suspended?: boolean }>
  readonly repositories: Array<Readonly<Record<string, unknown>>>
  readonly statuses: Array<{ readonly path: string; readonly body: Readonly<Record<string, unknown>> }>
  readonly tokensFor: Array<Readonly<Record<string, unknown>>>
  /** Unused authorization codes of the OAuth web flow, each with the GitHub account that it was issued to. */
  readonly codes: Map<string, SourcePerson>
  isDown: boolean
}

/** A GitHub account. */
export interface SourcePerson {
  /** Ids of the GitHub App installations that the account can read. */
  readonly installations: readonly number[]
  /** Number of repositories of an installation that the account can read; all if absent. */
  readonly readable?: number
}

export async function fakeHost(): Promise<FakeHost> {
  const { privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  })
  const host = {
    installations: new Map(),
    repositories: [],
    statuses: [],
    tokensFor: [],
    codes: new Map(),
    isDown: false,
  } as Pick<FakeHost, 'installations' | 'repositories' | 'statuses' | 'tokensFor' | 'codes'> & { isDown: boolean }
  const people = new Map<string, SourcePerson>()
  const exchange = async (request: IncomingMessage) => {
    const sent = (await json(request)) as Record<string, string>
    const person = host.codes.get(sent['code'] ?? '')
    const isOurs =
      sent['client_id'] === oauth.MOTE_GITHUB_CLIENT_ID && sent['client_secret'] === oauth.MOTE_GITHUB_CLIENT_SECRET
    // GitHub returns this error with the status 200.
    if (!person || !isOurs)
      return { error: 'bad_verification_code', error_description: 'The code is incorrect or expired.' }
    host.codes.delete(sent['code'] ?? '')
    const token = `ghu_${newId().replaceAll('-', '')}`
    people.set(token, person)
    return { access_token: token, token_type: 'bearer', scope: '' }
  }
  const answer = async (request: IncomingMessage): Promise<{ status: number; body: unknown }> => {
    const path = new URL(request.url ?? '/', 'http://host').pathname
    if (host.isDown) return { status: 502, body: { message: 'Bad gateway' } }
    if (path === '/login/oauth/access_token') return { status: 200, body: await exchange(request) }
    const person = people.get(String(request.headers.authorization).replace(/^(token|bearer) /i, ''))
    if (path.startsWith('/user/')) {
      if (!person) return { status: 401, body: { message: 'Bad credentials' } }
      const total_count = person.readable ?? host.repositories.length
      if (path.endsWith('/repositories')) return { status: 200, body: { total_count, repositories: [] } }
      const installations = person.installations.map(one => ({ id: one }))
      return { status: 200, body: { total_count: installations.length, installations } }
    }
    const id = Number(/^\/app\/installations\/(\d+)/.exec(path)?.[1])
    const found = host.installations.get(id)
    if (path.endsWith('/access_tokens')) {
      if (!found) return { status: 404, body: { message: 'Not Found' } }
      host.tokensFor.push((await json(request).catch(() => ({}))) as Record<string, unknown>)
      const expires_at = new Date(Date.now() + 3_600_000).toISOString()
      return {
        status: 201,
        body: { token: installationToken, expires_at, permissions: {}, repository_selection: 'all' },
      }
    }
    if (Number.isInteger(id)) {
      if (!found) return { status: 404, body: { message: 'Not Found' } }
      const account = { login: found.login, type: 'Organization', avatar_url: null }
      return { status: 200, body: { id, account, updated_at: '2020-01-01T00:00:00Z', suspended_at: null } }
    }
    if (path === '/installation/repositories')
      return { status: 200, body: { total_count: host.repositories.length, repositories: host.repositories } }
    if (path.includes('/statuses/')) {
      host.statuses.push({ path, body: (await json(request)) as Record<string, unknown> })
      return { status: 201, body: {} }
    }
    return { status: 404, body: { message: 'Not Found' } }
  }
  const server = createServer((request, response) => {
    void answer(request).then(({ status, body }) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body)),
    )
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return Object.assign(host, {
    env: {
      MOTE_GITHUB_APP_ID: '4711',
      MOTE_GITHUB_APP_SLUG: 'mote-test',
      MOTE_GITHUB_PRIVATE_KEY: privateKey,
      MOTE_GITHUB_WEBHOOK_SECRET: webhookSecret,
      MOTE_GITHUB_API_URL: origin,
      MOTE_GITHUB_URL: 'https://github.com',
      ...oauth,
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  })
}

export interface Sent {
  readonly id: string
  readonly event: string
  readonly payload: unknown
}

const post = async (api: Identity, url: string, raw: Buffer, headers: Record<string, string>): Promise<Reply> => {
  const answer = await api.app.inject({
    method: 'POST',
    url,
    payload: raw,
    headers: { 'content-type': 'application/json', ...headers },
  })
  return { status: answer.statusCode, body: JSON.parse(answer.body), headers: answer.headers }
}

/** Signs and sends a webhook request of the GitHub App. */
export function deliver(api: Identity, { id, event, payload }: Sent, secret = webhookSecret): Promise<Reply> {
  const raw = Buffer.from(JSON.stringify(payload))
  return post(api, '/v1/webhooks/scm', raw, {
    'x-github-event': event,
    'x-github-delivery': id,
    'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(raw).digest('hex')}`,
  })
}

/** Sends a raw body to the webhook of one app. */
export const deliverToApp = (api: Identity, app: string, raw: Buffer, headers: Record<string, string>) =>
  post(api, `/v1/webhooks/scm/${app}`, raw, headers)

export const push = (repoId: number, commit: string, pushedAt: number | undefined, ref = 'refs/heads/main') => ({
  ref,
  after: commit,
  head_commit: { message: `commit ${commit.slice(0, 4)}` },
  repository: { id: repoId, default_branch: 'main', ...(pushedAt === undefined ? {} : { pushed_at: pushedAt }) },
})
export const commitOf = (n: number) => n.toString(16).padStart(40, '0')

/** Returns the cookie that a browser would store from a response and send back. */
export const cookieOf = ({ headers }: Pick<Reply, 'headers'>) => String(headers['set-cookie']).split(';')[0] ?? ''

export interface ScmWorld extends AsyncDisposable {
  readonly host: FakeHost
  readonly api: Identity
  /** Installs the GitHub App for the user's default project, as a browser would. @returns the installation's id */
  install(person: Owner): Promise<number>
  appFor(
    person: Owner,
    installationId: number | null,
    gitUrl?: string,
  ): Promise<{ readonly name: string; readonly repoId: number; readonly id: string }>
  /** Lists the deployments of an app, newest first. */
  deploymentsOf(person: Owner, app: string): Promise<Array<Record<string, string>>>
}

/** Starts the whole API with a fake GitHub. */
export async function scmWorld(): Promise<ScmWorld> {
  const host = await fakeHost()
  const api = await startWholeApi({ env: host.env })
  let installations = 9000
  let repositories = 100
  const ok = (reply: Reply) => {
    if (reply.status !== 200) throw new Error(`answered ${reply.status}: ${JSON.stringify(reply.body)}`)
    return reply.body
  }
  return {
    host,
    api,
    async install(person) {
      const id = ++installations
      host.installations.set(id, { login: `org-${id}` })
      const begun = await api.call('GET', '/v1/scm/install', { token: person.token })
      const { url } = ok(begun)
      const state = new URL(url).searchParams.get('state') ?? ''
      host.codes.set(`code-${id}`, { installations: [id] })
      const query = `installation_id=${id}&setup_action=install&state=${encodeURIComponent(state)}&code=code-${id}`
      ok(await api.call('GET', `/v1/scm/callback?${query}`, { headers: { cookie: cookieOf(begun) } }))
      return id
    },
    async appFor(person, installationId, gitUrl = 'https://github.com/team/app.git') {
      const repoId = ++repositories
      const name = `app-${newId().slice(-8)}`
      const source = { scm_installation_id: installationId, scm_repo_id: repoId, scm_repo_full_name: 'team/app' }
      const made = ok(
        await api.call('POST', '/v1/apps', { token: person.token, body: { name, git_url: gitUrl, ...source } }),
      )
      return { name, repoId, id: String(made['id']) }
    },
    async deploymentsOf(person, app) {
      const found = await api.call('GET', `/v1/apps/${app}/deployments`, { token: person.token })
      return ok(found) as unknown as Array<Record<string, string>>
    },
    async [Symbol.asyncDispose]() {
      await api[Symbol.asyncDispose]()
      await host[Symbol.asyncDispose]()
    },
  }
}
