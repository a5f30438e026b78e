import { expect, it } from 'vitest'
import { runsAll } from '../../../test/support/all-examples.ts'
import { startIdentity } from '../../../test/support/identity.ts'
import { statement } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { newRefreshToken, purposes } from './credentials.ts'

const tokens = runsAll ? 1_000 : 200
const atOnce = 8
/** Number of tokens that are tested at the same time: few enough for a busy machine to serve all requests in time. */
const lanes = 8

const addAccounts = statement(
  'test.addAccounts',
  `INSERT INTO account (id, email, password_hash) SELECT id, id || '@example.com', '' FROM unnest($1::uuid[]) AS id`,
)
const addSessions = statement(
  'test.addSessions',
  `INSERT INTO session (id, account_id) SELECT * FROM unnest($1::uuid[], $2::uuid[])`,
)
const addTokens = statement(
  'test.addTokens',
  `INSERT INTO refresh_token (hash, session_id, account_id, expires_at)
   SELECT hash, session, account, now() + interval '1 day' FROM unnest($1::bytea[], $2::uuid[], $3::uuid[]) AS t (hash, session, account)`,
)
const liveSessions = statement<{ n: number }>(
  'test.liveSessions',
  `SELECT count(*) AS n FROM session WHERE revoked_at IS NULL`,
)
const usable = statement<{ n: number }>('test.usable', `SELECT count(*) AS n FROM refresh_token WHERE used_at IS NULL`)

it(`the server accepts at most one of ${atOnce} concurrent refreshes of each of ${tokens} tokens, and revokes all sessions`, async () => {
  await using api = await startIdentity()
  const { db, vault } = api.deps
  const people = Array.from({ length: tokens }, () => ({
    account: newId(),
    session: newId(),
    token: newRefreshToken(),
  }))
  const accounts = people.map(p => p.account)
  await db.run(addAccounts, [accounts])
  await db.run(addSessions, [people.map(p => p.session), accounts])
  const hashes = people.map(p => vault.hash(purposes.refreshToken, p.token))
  await db.run(addTokens, [hashes, people.map(p => p.session), accounts])

  const wins: number[] = []
  const fresh: string[] = []
  const queue = [...people]
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      for (let next = queue.pop(); next; next = queue.pop()) {
        const body = { refresh_token: next.token }
        const replies = await Promise.all(
          Array.from({ length: atOnce }, () => api.call('POST', '/v1/auth/refresh', { body })),
        )
        expect(replies.map(r => r.status).filter(status => status !== 200 && status !== 401)).toEqual([])
        const won = replies.filter(reply => reply.status === 200)
        wins.push(won.length)
        for (const reply of won) fresh.push(String(reply.body['refresh_token']))
      }
    }),
  )
  expect(wins).toHaveLength(tokens)
  expect(wins.every(count => count === 1)).toBe(true)
  expect((await db.one(liveSessions)).n).toBe(0)
  // Each winning request got a new token, which is already revoked.
  expect((await db.one(usable)).n).toBe(tokens)
  for (const refresh_token of fresh.slice(0, 20)) {
    expect((await api.call('POST', '/v1/auth/refresh', { body: { refresh_token } })).status).toBe(401)
  }
}, 120_000)
