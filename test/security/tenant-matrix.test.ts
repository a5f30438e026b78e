/** Every operation that needs a credential, with every kind of invalid credential and with another tenant's ids. */
import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createSessionTokens } from '../../src/control/auth/jwt.ts'
import { newPat, purposes } from '../../src/control/auth/credentials.ts'
import { statement } from '../../src/db/db.ts'
import type { Operation } from '../../src/control/http/operation.ts'
import { newId } from '../../src/lib/ids.ts'
import type { CallOptions, Identity, Reply } from '../support/identity.ts'
import { type Belongings, type Case, bodyOf, everyOperation, pathOf, settle, startWholeApi } from './cases.ts'
import { type Fingerprints, fingerprints } from './fingerprint.ts'

const credentialFaults = [
  'no credential',
  'malformed',
  'expired',
  'wrong algorithm',
  'revoked session',
  'revoked PAT',
  'deleted user',
] as const
type Fault = (typeof credentialFaults)[number]

let api: Identity
let prints: Fingerprints
let victim: Belongings
let cases: readonly Case[]
let headers: Record<Fault, readonly string[]>
let cells = 0

beforeAll(async () => {
  api = await startWholeApi()
  // The first account becomes the administrator; the accounts of this test must not.
  await api.person()
  prints = await fingerprints(api.url)
  victim = await settle(api)
  cases = everyOperation(api).filter(({ operation }) => operation.auth === 'bearer')
  headers = await badCredentials()
})
afterAll(async () => {
  await prints.close()
  await api[Symbol.asyncDispose]()
  process.stdout.write(`tenant matrix: ${cells} cells over ${cases.length} operations\n`)
})

const segment = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

async function badCredentials(): Promise<Record<Fault, readonly string[]>> {
  const { vault, clock } = api.deps
  const { person } = victim
  const claims = { userId: person.id, sessionId: person.sessionId, epoch: 1 }
  const longAgo = { ...clock, now: () => new Date(clock.now().getTime() - 7_200_000) }
  const expired = createSessionTokens({ vault, clock: longAgo, ttlSeconds: 3600 }).sign(claims)
  const payload = person.token.split('.')[1] ?? ''
  const [key] = vault.signingKeys(purposes.session)
  if (!key) throw new Error('BUG: no signing key')
  const signed = (alg: string, hash: string) => {
    const text = `${segment({ alg, typ: 'JWT', kid: key.kid })}.${payload}`
    return `${text}.${createHmac(hash, key.key).update(text).digest('base64url')}`
  }
  const gone = await settle(api)
  await api.call('DELETE', '/v1/auth/me', { token: gone.person.token })
  const left = await api.login(person.email)
  await api.call('POST', '/v1/auth/logout', { body: { refresh_token: left.refreshToken } })
  const pat = await api.call('POST', '/v1/auth/tokens', { token: person.token, body: { name: 'short-lived' } })
  await api.call('DELETE', `/v1/auth/tokens/${pat.body['id']}`, { token: person.token })
  return {
    'no credential': [],
    malformed: [
      'Bearer',
      'Bearer x',
      `Basic ${person.token}`,
      `Bearer ${person.token}x`,
      person.token,
      `Bearer ${newPat()}`,
    ],
    expired: [`Bearer ${expired}`],
    'wrong algorithm': [
      `Bearer ${segment({ alg: 'none', typ: 'JWT' })}.${payload}.`,
      `Bearer ${segment({ alg: 'none', typ: 'JWT', kid: key.kid })}.${payload}.${person.token.split('.')[2]}`,
      `Bearer ${signed('HS512', 'sha512')}`,
      `Bearer ${signed('HS384', 'sha256')}`,
    ],
    'revoked session': [`Bearer ${left.token}`],
    'revoked PAT': [`Bearer ${pat.body['token']}`],
    'deleted user': [`Bearer ${gone.person.token}`, `Bearer ${gone.pat}`],
  }
}

function send(subject: Case, options: CallOptions, params = victim.params): Promise<Reply> {
  const body = bodyOf(subject)
  return api.call(subject.operation.method, pathOf(subject, params), { ...(body ? { body } : {}), ...options })
}

/** Returns a hash of each table except the audit log, which records rejected credentials. */
async function allButAudit(): Promise<Readonly<Record<string, string>>> {
  const { audit_log: _, ...rest } = await prints.take()
  return rest
}

it.each(credentialFaults)('every operation rejects a bad credential: %s', async fault => {
  const before = await allButAudit()
  for (const subject of cases) {
    const tries = headers[fault].length === 0 ? [undefined] : headers[fault]
    for (const authorization of tries) {
      const reply = await send(subject, { headers: authorization === undefined ? {} : { authorization } })
      expect([subject.id, authorization, reply.status, reply.body]).toEqual([
        subject.id,
        authorization,
        401,
        expect.objectContaining({ status: 401, code: 'unauthenticated', error: expect.any(String) }),
      ])
    }
    cells++
  }
  expect(await allButAudit()).toEqual(before)
})

it("another tenant's project gets the same 404 as a project that does not exist", async () => {
  const stranger = await settle(api)
  const before = await prints.take()
  for (const subject of cases.filter(({ operation }) => operation.project !== 'none')) {
    const inPath = subject.operation.project === 'path'
    const ask = (selector: string) =>
      send(
        subject,
        { token: stranger.person.token, headers: inPath ? {} : { 'x-project': selector } },
        inPath ? { ...victim.params, tenant_slug: selector } : victim.params,
      )
    const missing = await ask(inPath ? 'no-such-project' : newId())
    for (const selector of [victim.params['tenant_slug'] ?? '', victim.projectId]) {
      const foreign = await ask(selector)
      expect([subject.id, foreign.status]).toEqual([subject.id, 404])
      expect({ ...foreign.body, request_id: '' }).toEqual({ ...missing.body, request_id: '' })
    }
  }
  expect(await prints.take()).toEqual(before)
})

it("a tenant cannot reach another tenant's resources through its own project", async () => {
  const stranger = await settle(api)
  const before = await prints.take(await idsOf(stranger))
  // Delete the account last, because the other operations need it.
  const ordered = cases.toSorted((a, b) => Number(a.id === 'deleteMe') - Number(b.id === 'deleteMe'))
  for (const subject of ordered) {
    const { operation } = subject
    // Skip streams of the tenant's own project, which would never end. The test above covers streams of other projects.
    if (operation.answer === 'stream' && !/\{/.test(operation.path)) {
      cells++
      continue
    }
    const params =
      operation.project === 'path'
        ? { ...victim.params, tenant_slug: stranger.params['tenant_slug'] ?? '' }
        : victim.params
    const reply = await send(subject, { token: await tokenOf(stranger) }, params)
    expect([subject.id, reply.status]).toEqual([subject.id, expect.toSatisfy(expectedOfStranger(operation))])
    const text = JSON.stringify(reply.body)
    for (const id of [victim.person.id, victim.projectId, victim.params['app_id'], victim.params['deployment_id']])
      expect([subject.id, text.includes(String(id))]).toEqual([subject.id, false])
    cells++
  }
  expect(await prints.take(await idsOf(stranger))).toEqual(before)
})

/**
 * Returns which statuses another tenant may get: 403 for operators' operations, 404 for another tenant's resources, and
 * any but a server error for operations on its own project.
 */
function expectedOfStranger({ adminOnly, path }: Operation): (status: number) => boolean {
  if (adminOnly) return status => status === 403
  if (/\{(?!tenant_slug)/.test(path)) return status => status === 404 || status === 501
  return status => status < 500 || status === 501
}

const owned = statement<{ id: string }>(
  'test.owned',
  `WITH projects AS (
     SELECT resource_id::uuid AS id FROM audit_log WHERE account_id = $1 AND action = 'project.created'
   ), children AS (
     SELECT id, project_id FROM app UNION ALL SELECT id, project_id FROM deployment UNION ALL SELECT id, project_id FROM vm
     UNION ALL SELECT id, project_id FROM volume UNION ALL SELECT id, project_id FROM database
     UNION ALL SELECT id, project_id FROM branch
   )
   SELECT id FROM projects UNION ALL SELECT c.id FROM children c JOIN projects p ON p.id = c.project_id`,
)
/** Returns the ids of the tenant's own resources, whose rows may change. */
async function idsOf({ person }: Belongings): Promise<string[]> {
  return [person.id, ...(await api.deps.db.rows(owned, [person.id])).map(row => row.id)]
}

/** Returns a valid session token; signs in again if an operation has ended the session. */
async function tokenOf(stranger: Belongings): Promise<string> {
  const alive = await api.call('GET', '/v1/auth/me', { token: stranger.person.token })
  return alive.status === 200 ? stranger.person.token : (await api.login(stranger.person.email)).token
}
