import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { describeEachPostgres } from '../../../test/support/database.ts'
import { startPrivateServer } from '../../../test/support/global-setup.ts'
import { type Identity, startIdentity } from '../../../test/support/identity.ts'
import { until } from '../../../test/support/wait.ts'
import { type Statement, statement } from '../../db/db.ts'
import { createVault } from '../../lib/vault.ts'
import { sealBatch } from './chain.ts'
import { auditHeads, currentHead, readHeads, signedHead } from './heads.ts'
import { auditRetention, auditSealing, verifyAuditChain } from './index.ts'
import { removeOldAudit } from './retention.ts'

const never = new AbortController().signal
let statements = 0
async function testDirectory() {
  const path = await mkdtemp(join(tmpdir(), 'mote-audit-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) }
}
const sql = (text: string): Statement<{ n: number }> => statement(`test.audit.${++statements}`, text)

describeEachPostgres('the audit log', which => {
  // Rows are sealed only after older transactions of the whole database server, so the test needs a server of its own.
  let server: Awaited<ReturnType<typeof startPrivateServer>>
  let api: Identity
  beforeAll(async () => {
    server = await startPrivateServer(which)
    if (!server) throw new Error(`BUG: ${which} was there a moment ago`)
    api = await startIdentity({ postgres: server })
  })
  afterAll(async () => {
    await api[Symbol.asyncDispose]()
    await server?.[Symbol.asyncDispose]()
  })

  const unsealed = sql('SELECT count(*) AS n FROM audit_log WHERE position IS NULL')
  /** Seals all rows. Retries, because internal transactions of PostgreSQL (such as autovacuum) can delay sealing. */
  const seal = () =>
    until(
      async () => {
        await auditSealing(api.deps).run({ signal: never, now: new Date() })
        return (await api.deps.db.one(unsealed)).n === 0
      },
      { what: 'every row to be sealed' },
    )
  const verify = () => verifyAuditChain(api.deps.db, api.deps.vault)

  it('lists entries newest first, with exact totals for every filter, whether they are in the hash chain yet or not', async () => {
    const person = await api.person()
    const token = person.token
    await api.call('POST', '/v1/auth/tokens', { token, body: { name: 'one' } })
    await api.call('POST', '/v1/auth/tokens', { token, body: { name: 'two' } })
    await api.call('POST', '/v1/auth/login', { body: { email: person.email, password: 'wrong wrong' } })
    const list = async (query: string) => (await api.call('GET', `/v1/audit-logs${query}`, { token })).body
    const actions = async (query: string) => (await list(query))['items'].map((item: { action: string }) => item.action)
    const expected = [
      'auth.login_failed',
      'token.created',
      'token.created',
      'auth.login',
      'project.created',
      'account.created',
    ]
    for (const state of ['unsealed', 'sealed']) {
      expect([state, await actions('')]).toEqual([state, expected])
      expect((await list(''))['total']).toBe(6)
      expect(await list('?action=token.created&limit=1')).toMatchObject({
        total: 2,
        items: [{ details: { name: 'two' } }],
      })
      expect((await list('?resource_type=token'))['total']).toBe(2)
      expect((await list('?resource_type=token&action=auth.login'))['total']).toBe(0)
      expect(await actions('?limit=2&offset=3')).toEqual(['auth.login', 'project.created'])
      await seal()
    }
    const [failed] = (await list(''))['items']
    expect(failed).toMatchObject({ user_id: person.id, ip_address: '127.0.0.1', details: { wrong: 'password' } })
  })

  it('lists no rows of other users and projects', async () => {
    const [a, b] = [await api.person(), await api.person()]
    const list = await api.call('GET', '/v1/audit-logs', { token: b.token })
    expect(new Set(list.body['items'].map((item: { user_id: string }) => item.user_id))).toEqual(new Set([b.id]))
    const project = (await api.call('GET', '/v1/projects', { token: a.token })).body[0].id
    expect(
      (await api.call('GET', '/v1/audit-logs', { token: b.token, headers: { 'x-project': project } })).status,
    ).toBe(404)
  })

  it('refuses changes and removals of rows', async () => {
    await seal()
    const { db } = api.deps
    for (const text of [
      `UPDATE audit_log SET action = 'x'`,
      `UPDATE audit_log SET hash = NULL, position = NULL`,
      `DELETE FROM audit_log`,
      `TRUNCATE audit_log`,
    ])
      await expect(db.run(sql(text)), text).rejects.toThrow('append-only')
    expect(await verify()).toMatchObject({ intact: true })
  })

  it('seals rows in the order of their commits, after all older transactions have ended', async () => {
    await seal()
    const before = await verify()
    const insert = sql(
      `INSERT INTO audit_log (id, account_id, action, resource_type, details)
       VALUES (gen_random_uuid(), gen_random_uuid(), 'x', 'x', '{}')`,
    )
    await api.deps.db.tx(async tx => {
      await tx.run(insert)
      await api.deps.db.run(insert)
      expect(await sealBatch(api.deps.db, api.deps.vault, 100)).toBe(0)
    })
    await seal()
    const after = await verify()
    if (!before.intact || !after.intact) throw new Error('the chain is broken')
    expect(after.rows - before.rows).toBe(2)
  })

  it('seals each row once, even with concurrent sealers', async () => {
    const insert = sql(
      `INSERT INTO audit_log (id, account_id, action, resource_type, details)
       SELECT gen_random_uuid(), gen_random_uuid(), 'race', 'x', '{}' FROM generate_series(1, 500)`,
    )
    await seal()
    await api.deps.db.run(insert)
    let sealed = 0
    const sealAtOnce = async () => {
      const counts = await Promise.all(Array.from({ length: 8 }, () => sealBatch(api.deps.db, api.deps.vault, 100)))
      sealed += counts.reduce((sum, n) => sum + n, 0)
      return sealed >= 500
    }
    await until(sealAtOnce, { what: 'every row to be sealed' })
    expect(sealed).toBe(500)
    expect(await verify()).toMatchObject({ intact: true })
  })

  const tampering: readonly [string, string][] = [
    ['a changed detail', `UPDATE audit_log SET details = '{"a": 1}' WHERE position = 5`],
    ['another actor', `UPDATE audit_log SET account_id = gen_random_uuid() WHERE position = 5`],
    ['another time', `UPDATE audit_log SET created_at = created_at + interval '1 us' WHERE position = 5`],
    ['a removed row', `DELETE FROM audit_log WHERE position = 5`],
    ['a removed last row', `DELETE FROM audit_log WHERE position = (SELECT last_position FROM audit_chain)`],
    ['two exchanged rows', `UPDATE audit_log SET position = -position WHERE position IN (5, 6)`],
    ['an end that was moved back', `UPDATE audit_chain SET last_position = last_position - 1`],
    ['a start that was moved', `UPDATE audit_chain SET first_position = 4`],
    ['a hash of the attacker', `UPDATE audit_log SET hash = sha256(hash) WHERE position = 5`],
  ]
  it.each(tampering)('is reported as tampered with after %s', async (_name, text) => {
    await seal()
    const rollback = new Error('undo')
    const run = api.deps.db.tx(async tx => {
      await tx.run(sql(`ALTER TABLE audit_log DISABLE TRIGGER USER`))
      expect(await tx.run(sql(text))).toBeGreaterThan(0)
      // Verifies the chain inside the transaction that tampers with it, as if the changes had been committed.
      const verdict = await verifyAuditChain({ ...api.deps.db, one: tx.one, rows: tx.rows }, api.deps.vault)
      expect(verdict.intact).toBe(false)
      throw rollback
    })
    await expect(run).rejects.toBe(rollback)
    expect(await verify()).toMatchObject({ intact: true })
  })

  it('does not match an earlier signed head if its newest rows were removed or replaced', async () => {
    await seal()
    const { db, vault } = api.deps
    const head = await currentHead(db)
    const file = `noise\n${JSON.stringify({ msg: 'x', head: signedHead(vault, head, new Date()) })}\n`
    expect(await verifyAuditChain(db, vault, readHeads(vault, file))).toMatchObject({ intact: true })
    const rollback = new Error('undo')
    const run = db.tx(async tx => {
      await tx.run(sql(`ALTER TABLE audit_log DISABLE TRIGGER USER`))
      await tx.run(sql(`DELETE FROM audit_log WHERE position > (SELECT last_position - 3 FROM audit_chain)`))
      await tx.run(
        sql(`UPDATE audit_chain SET last_position = last_position - 3,
          last_hash = (SELECT hash FROM audit_log WHERE position = last_position - 3)`),
      )
      const inside = { ...db, one: tx.one, rows: tx.rows }
      // The database alone does not show that the newest rows were removed.
      expect(await verifyAuditChain(inside, vault)).toMatchObject({ intact: true })
      expect(await verifyAuditChain(inside, vault, readHeads(vault, file))).toMatchObject({
        intact: false,
        at: head.position - 2,
      })
      throw rollback
    })
    await expect(run).rejects.toBe(rollback)
    const other = { ...head, hash: 'a'.repeat(64) }
    expect(await verifyAuditChain(db, vault, [other])).toMatchObject({ intact: false, at: head.position })
  })

  it('is compared only with heads that have a valid signature', () => {
    const { vault } = api.deps
    const line = signedHead(vault, { position: 7, hash: 'b'.repeat(64) }, new Date())
    expect(readHeads(vault, line)).toEqual([{ position: 7, hash: 'b'.repeat(64) }])
    for (const changed of [line.replace(' 7 ', ' 6 '), line.replace('b', 'c')])
      expect(() => readHeads(vault, changed)).toThrow('line 1')
    expect(readHeads(vault, 'nothing here')).toEqual([])
  })

  it("has its signed head written to the program's log and to a file, once per position", async () => {
    await seal()
    await using dir = await testDirectory()
    const lines: string[] = []
    const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) })
    const config = { ...api.deps.config, auditHeadsFile: join(dir.path, 'heads') }
    const sweep = auditHeads({ ...api.deps, config, log })
    for (const written of [1, 0]) expect(await sweep.run({ signal: never, now: new Date() })).toEqual({ written })
    const head = await currentHead(api.deps.db)
    expect(readHeads(api.deps.vault, await readFile(config.auditHeadsFile, 'utf8'))).toEqual([head])
    expect(readHeads(api.deps.vault, lines.join('\n'))).toEqual([head])
  })

  it("has hashes that cannot be recomputed without the installation's secret", async () => {
    const other = createVault(['another-secret-that-is-long-enough-for-us'])
    expect(await verifyAuditChain(api.deps.db, other)).toMatchObject({ intact: false, at: 1 })
  })

  it('can still be verified after its oldest rows were removed', async () => {
    await seal()
    const before = await verify()
    const removed = await removeOldAudit(api.deps.db, new Date(), 10)
    expect(removed).toBe(10)
    const after = await verify()
    if (!before.intact || !after.intact) throw new Error('the chain is broken')
    expect(after.rows).toBe(before.rows - 10)
    const counted = await api.deps.db.one(
      sql(`SELECT (SELECT sum(rows) FROM audit_count)::int - count(*)::int AS n FROM audit_log`),
    )
    expect(counted.n).toBe(0)
    expect(await auditRetention(api.deps).run({ signal: never, now: new Date() })).toEqual({ removed: 0 })
  })
})
