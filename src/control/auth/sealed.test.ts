import { globSync, readFileSync } from 'node:fs'
import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { settle, startWholeApi } from '../../../test/security/cases.ts'
import { statement } from '../../db/db.ts'
import { createVault } from '../../lib/vault.ts'
import type { Deps } from '../base/deps.ts'
import { purposes } from './credentials.ts'
import { resealAll, sealedColumns } from './sealed.ts'

const newSecret = 'a-new-secret-that-is-long-enough-for-us'

/**
 * Finds the encryption purpose in the source text: a literal, a member of `purposes`, or a constant of the same file.
 */
function purposeOf(expression: string, source: string): string | undefined {
  const literal = /^'([^']+)'$/.exec(expression)?.[1]
  const shared = /^purposes\.(\w+)$/.exec(expression)?.[1]
  const local = new RegExp(`const ${expression.replaceAll('.', '\\.')} = '([^']+)'`).exec(source)?.[1]
  return literal ?? (shared === undefined ? local : Reflect.get(purposes, shared))
}

it('the list of encrypted columns contains every purpose that is used for encryption', () => {
  const sealing = globSync('src/**/*.ts').filter(file => !/\.test\.ts$|lib\/vault\.ts$|auth\/sealed\.ts$/.test(file))
  const found = sealing.flatMap(file => {
    const source = readFileSync(file, 'utf8')
    return [...source.matchAll(/\.seal\(\s*([^,\s]+)\s*,/g)].map(([, text = '']) => ({
      file,
      purpose: purposeOf(text, source),
    }))
  })
  const listed = new Set(sealedColumns.map(({ purpose }) => purpose))
  expect(found.length).toBeGreaterThanOrEqual(4)
  expect(found.filter(({ purpose }) => purpose === undefined || !listed.has(purpose))).toEqual([])
})

it('every binary column is listed as encrypted or as a hash', async () => {
  await using api = await startWholeApi()
  const columns = await api.deps.db.rows(
    statement<{ name: string }>(
      'test.binaryColumns',
      `SELECT table_name || '.' || column_name AS name FROM information_schema.columns
       WHERE table_schema = 'public' AND data_type = 'bytea' ORDER BY 1`,
    ),
  )
  const hashed = /\.(hash|\w+_hash|key|fingerprint|checksum)$/
  const sealed = new Set(sealedColumns.map(({ table, column }) => `${table}.${column}`))
  expect(columns.map(({ name }) => name).filter(name => !hashed.test(name) && !sealed.has(name))).toEqual([])
})

it('a re-encryption converts each encrypted value to the new key once', async () => {
  // A mail server is configured, so that the registration's mail is queued; it is unreachable, so the mail stays there.
  await using api = await startWholeApi({ env: { MOTE_SMTP_URL: 'smtp://127.0.0.1:1' } })
  const { deps } = api
  const { person, params } = await settle(api)
  const token = person.token
  const setup = await api.call('GET', '/v1/auth/2fa/setup', { token })
  await api.call('PUT', `/v1/apps/${params['app_name']}/env/GREETING`, { token, body: { value: 'a secret value' } })
  const shared = `/v1/env-groups/${params['group_name']}/env/SHARED`
  await api.call('PUT', shared, { token, body: { value: 'a secret value' } })
  const file = { path: '/etc/app.conf', content: 'c2VjcmV0' }
  await api.call('PUT', `/v1/apps/${params['app_name']}/files`, { token, body: file })
  await api.call('POST', `/v1/apps/${params['app_name']}/deploy`, { token, body: { image: 'example.com/image:2' } })
  await api.call('POST', '/v1/auth/tokens', { token, body: { name: 'once' }, headers: { 'idempotency-key': 'once' } })

  const app = `/v1/apps/${params['app_name']}`
  await api.call('PATCH', app, { token, body: { port: 8080, git_url: 'https://git.example/a.git' } })
  await api.call('PUT', `${app}/git-credential`, { token, body: { kind: 'token', token: 'a deploy token' } })
  const login = { host: 'ghcr.io', username: 'ada', password: 'a token' }
  await api.call('PUT', '/v1/registry-credentials', { token, body: login })
  await keepCertificate(deps)
  await keepVolumeKey(
    deps,
    (await api.call('POST', '/v1/volumes', { token, body: { name: 'data', size_mib: 64 } })).body,
  )

  await api.call('PUT', `/v1/databases/${params['id']}/backups/target`, {
    token,
    body: { endpoint: 'https://s3.example', bucket: 'backups', access_key: 'a', secret_key: 'b' },
  })

  const [old = ''] = deps.config.secrets
  const counts = await resealAll(deps.db, createVault([newSecret, old]))
  expect(counts.map(({ column }) => column)).toEqual(sealedColumns.map(({ table, column }) => `${table}.${column}`))
  expect(counts.filter(({ resealed, unreadable }) => resealed === 0 || unreadable > 0)).toEqual([])
  const onlyNew = createVault([newSecret])
  for (const { table, column, purpose } of sealedColumns) {
    const boxes = await deps.db.rows(
      statement<{ box: Buffer }>(
        `test.sealed.${table}.${column}`,
        `SELECT ${column} AS box FROM ${table} WHERE ${column} IS NOT NULL`,
      ),
    )
    const opened = boxes.map(({ box }) => onlyNew.open(purpose, box))
    if (table === 'account') expect(opened).toEqual([setup.body['secret']])
    if (column === 'value') expect(opened).toContain('a secret value')
  }
  const again = await resealAll(deps.db, createVault([newSecret, old]))
  const rows = counts.map(({ resealed }) => resealed)
  expect(again.map(({ resealed, current, unreadable }) => [resealed, current, unreadable])).toEqual(
    rows.map(count => [0, count, 0]),
  )
  const stranger = await resealAll(deps.db, createVault([randomBytes(32).toString('hex')]))
  expect(stranger.map(({ resealed, unreadable }) => [resealed, unreadable])).toEqual(rows.map(count => [0, count]))
})

/** Stores a key, like that of a volume in an encrypted pool. */
async function keepVolumeKey(
  { db, vault }: Pick<Deps, 'db' | 'vault'>,
  volume: Record<string, unknown>,
): Promise<void> {
  await db.run(statement('test.volumeKey', 'UPDATE volume SET key = $2 WHERE id = $1'), [
    String(volume['id']),
    vault.seal('volume.key', 'a key of a disk'),
  ])
}

/** Stores a certificate as if a certificate authority had issued it. */
async function keepCertificate({ db, vault }: Pick<Deps, 'db' | 'vault'>): Promise<void> {
  await db.run(
    statement(
      'test.certificate',
      `WITH named AS (
         INSERT INTO domain (id, project_id, app_id, name, token)
         SELECT gen_random_uuid(), project_id, id, 'www.example.com', 'token' FROM app LIMIT 1 RETURNING id
       ) INSERT INTO certificate (domain_id, chain, private_key) SELECT id, 'chain', $1 FROM named`,
    ),
    [vault.seal('certificate.key', 'a private key')],
  )
  await db.run(
    statement('test.account', `INSERT INTO acme_account (directory, key) VALUES ('https://ca.example', $1)`),
    [vault.seal('acme.account', 'an account key')],
  )
}

it('a re-encryption processes more rows than one page contains', async () => {
  await using api = await startWholeApi()
  const { db, vault } = api.deps
  const person = await api.person()
  await db.run(
    statement(
      'test.manyAnswers',
      `INSERT INTO idempotency_key (account_id, key, fingerprint, status, answer)
       SELECT $1, 'key ' || i, '', 200, $2 FROM generate_series(1, 1100) AS i`,
    ),
    [person.id, vault.seal('idempotency-answer', '{}')],
  )
  const [old = ''] = api.deps.config.secrets
  const counts = await resealAll(db, createVault([newSecret, old]))
  expect(counts.find(({ column }) => column === 'idempotency_key.answer')).toMatchObject({ resealed: 1100, current: 0 })
})
