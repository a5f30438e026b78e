/**
 * Speculative reads: the statement of a read is sent together with the authentication query, for the caller and project
 * that the last request with this credential had. Tests the cases in which the caller or project has changed since.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Identity, type Person, startIdentity } from '../../../test/support/identity.ts'
import { type Param, statement } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { feature, operations } from '../http/operation.ts'
import { projectsFeature } from '../projects/index.ts'
import { authFeature } from './index.ts'

const rowOf = statement<{ name: string }>('test.row', 'SELECT name FROM project WHERE id = $1')
const testOperations = operations({
  readRow: {
    method: 'GET',
    path: '/v1/test/row',
    tag: 'Test',
    summary: 'One row',
    auth: 'bearer',
    scope: 'write',
    project: 'selected',
    answer: 'free',
  },
})
const testFeature = ({ db }: Pick<Deps, 'db'>) =>
  feature(testOperations, {
    readRow: {
      async read({ project, caller }) {
        return { ...(await db.one(rowOf, [project.id])), email: caller.email }
      },
    },
  })

/** Returns the statements in the order they were sent, with `|` at the end of each tick of the event loop. */
function sentBy(deps: Deps): string[] {
  const sent: string[] = []
  for (const way of ['one', 'maybe', 'rows', 'run'] as const) {
    const send = deps.db[way]
    vi.spyOn(deps.db, way).mockImplementation((...asked: Parameters<typeof send>) => {
      sent.push(asked[0].name)
      setImmediate(() => sent.at(-1) === '|' || sent.push('|'))
      return Reflect.apply(send, deps.db, asked)
    })
  }
  return sent
}

let api: Identity
let sent: string[]
const start = (env: Readonly<Record<string, string>> = {}) =>
  startIdentity({ env, features: deps => [authFeature(deps), projectsFeature(deps), testFeature(deps)] })
beforeAll(async () => {
  api = await start()
  sent = sentBy(api.deps)
})
afterAll(async () => api[Symbol.asyncDispose]())

const run = (name: string, text: string, params: readonly Param[]) =>
  api.deps.db.run(statement(`test.${name}`, text), params)

/** Sends a request. Returns the response, and the statements that the server sent for it. */
async function ask(token: string) {
  sent.length = 0
  const { status, body } = await api.call('GET', '/v1/test/row', { token })
  return { status, body, sent: sent.join(' ') }
}

async function patOf({ token }: Person): Promise<string> {
  const { body } = await api.call('POST', '/v1/auth/tokens', { token, body: { name: 'x', scopes: ['write'] } })
  return String(body['token'])
}

const apart = (who: string) => `${who} | test.row |`
const together = (who: string) => `${who} test.row |`

describe('a speculative read', () => {
  it.each([
    ['session', 'auth.bySessionInProject', async (person: Person) => person.token],
    ['access token', 'auth.byPatInProject', patOf],
  ])('with a known %s is sent together with the authentication query, in one tick', async (_what, who, tokenOf) => {
    const token = await tokenOf(await api.person())
    expect(await ask(token)).toMatchObject({ status: 200, sent: apart(who) })
    for (let n = 0; n < 3; n++) expect(await ask(token)).toMatchObject({ status: 200, sent: together(who) })
  })

  it('of account data takes one round trip', async () => {
    const { token } = await api.person()
    for (const trips of [2, 1]) {
      sent.length = 0
      expect((await api.call('GET', '/v1/auth/me', { token })).status).toBe(200)
      expect(sent.join(' ').match(/\|/g), sent.join(' ')).toHaveLength(trips)
    }
  })

  it('is sent only for a project that was used with the credential before', async () => {
    const person = await api.person()
    const { body: other } = await api.call('POST', '/v1/projects', { token: person.token, body: { name: 'Other' } })
    const named = (project: string) =>
      api.call('GET', '/v1/test/row', { token: person.token, headers: { 'x-project': project } })
    for (let n = 0; n < 2; n++)
      for (const project of [other['id'], other['tenant_id']])
        expect((await named(project)).body).toMatchObject({ name: 'Other' })
    expect((await ask(person.token)).body['name']).not.toBe('Other')
    const stranger = await api.person()
    for (let n = 0; n < 2; n++)
      expect(
        (await api.call('GET', '/v1/test/row', { token: stranger.token, headers: { 'x-project': other['id'] } }))
          .status,
      ).toBe(404)
  })
})

/** Changes that revoke a credential or a right, each with the status of the next request. */
const changes: readonly (readonly [string, number, 'session' | 'pat', (person: Person) => Promise<unknown>])[] = [
  [
    'the session ended',
    401,
    'session',
    ({ id }) => run('end', 'UPDATE session SET revoked_at = now() WHERE account_id = $1', [id]),
  ],
  [
    'the password changed',
    401,
    'session',
    ({ id }) => run('epoch', 'UPDATE account SET epoch = epoch + 1 WHERE id = $1', [id]),
  ],
  ['the token was revoked', 401, 'pat', ({ id }) => run('revoke', 'DELETE FROM pat WHERE account_id = $1', [id])],
  [
    'the token expired',
    401,
    'pat',
    ({ id }) => run('expire', `UPDATE pat SET expires_at = now() - interval '1 second' WHERE account_id = $1`, [id]),
  ],
  [
    'its scopes were lowered',
    403,
    'pat',
    ({ id }) => run('scopes', `UPDATE pat SET scopes = '{read}' WHERE account_id = $1`, [id]),
  ],
  [
    'the role was lowered',
    403,
    'session',
    ({ id }) => run('role', `UPDATE project_member SET role = 'viewer' WHERE account_id = $1`, [id]),
  ],
  [
    'the membership was removed',
    404,
    'pat',
    ({ id }) => run('leave', 'DELETE FROM project_member WHERE account_id = $1', [id]),
  ],
  [
    'the project is being deleted',
    404,
    'session',
    ({ id }) =>
      run(
        'delete',
        `UPDATE project SET want = 'deleted' WHERE id IN (SELECT project_id FROM project_member WHERE account_id = $1)`,
        [id],
      ),
  ],
]

describe('a request after a change of its caller', () => {
  it.each(changes)('(%s) gets %i and no row from the speculative read', async (_what, status, kind, change) => {
    const person = await api.person()
    const token = kind === 'pat' ? await patOf(person) : person.token
    const name = String((await ask(token)).body['name'])
    expect((await ask(token)).sent).toContain(' test.row |')
    await change(person)
    const next = await ask(token)
    expect(next.status).toBe(status)
    expect(JSON.stringify(next.body)).not.toContain(name)
    expect(next.sent, 'the caller was presumed').toMatch(/^auth\.\w+ test\.row \|/)
    const later = await ask(token)
    expect(later.status).toBe(status)
    expect(later.sent, 'the caller is no longer presumed').not.toContain('test.row')
  })

  it('returns data of the new default project', async () => {
    const person = await api.person()
    const { body: other } = await api.call('POST', '/v1/projects', { token: person.token, body: { name: 'Moved to' } })
    await ask(person.token)
    await run('move', 'UPDATE account SET default_project_id = $2 WHERE id = $1', [person.id, other['id']])
    const next = await ask(person.token)
    expect(next.body).toMatchObject({ name: 'Moved to' })
    expect(next.sent).toBe('auth.bySessionInProject test.row | test.row |')
    expect((await ask(person.token)).sent).toBe(together('auth.bySessionInProject'))
  })

  it('returns the new e-mail address', async () => {
    const person = await api.person()
    await ask(person.token)
    await run('email', `UPDATE account SET email = 'new-' || email WHERE id = $1`, [person.id])
    expect((await ask(person.token)).body).toMatchObject({ email: `new-${person.email}` })
  })

  it('is refused after a revocation, even among many concurrent requests', async () => {
    const person = await api.person()
    const token = await patOf(person)
    await ask(token)
    let revoked = false
    let begunAfter = 0
    const asking = Array.from({ length: 8 }, async () => {
      for (let after = 0; after < 5; ) {
        const wasRevoked = revoked
        const { status } = await api.call('GET', '/v1/test/row', { token })
        if (!wasRevoked) continue
        expect(status).toBe(401)
        after++
        begunAfter++
      }
    })
    await run('revoke', 'DELETE FROM pat WHERE account_id = $1', [person.id])
    revoked = true
    await Promise.all(asking)
    expect(begunAfter).toBe(40)
  })
})

it('a request beyond the rate limit sends only the authentication query, and later requests send no query', async () => {
  const other = await start({ MOTE_RATE_TENANT: '2' })
  try {
    const { token } = await other.person()
    const observed = sentBy(other.deps)
    const answers: string[] = []
    for (let n = 0; n < 4; n++) {
      observed.length = 0
      const { status } = await other.call('GET', '/v1/test/row', { token })
      answers.push(`${status}: ${observed.join(' ')}`)
    }
    const who = 'auth.bySessionInProject'
    expect(answers).toEqual([`200: ${apart(who)}`, `200: ${together(who)}`, `429: ${who} |`, '429: '])
  } finally {
    await other[Symbol.asyncDispose]()
  }
})
