/**
 * No secret appears in logs or in the database. The test uses every operation that creates or accepts a secret, and
 * then searches all log lines and all rows.
 */
import { Writable } from 'node:stream'
import { Secret, TOTP } from 'otpauth'
import pg from 'pg'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { type Identity, testPassword } from '../support/identity.ts'
import { startWholeApi } from './cases.ts'

const secretKey = 'the-installation-secret-that-nobody-may-see'
const newPassword = 'quite another staple 8 horses'

/**
 * Uses every operation that creates or accepts a secret, with valid and invalid values, and returns the secrets by
 * name.
 */
async function useEverySecret(api: Identity): Promise<Map<string, string>> {
  const secrets = new Map([
    ['password', testPassword],
    ['new password', newPassword],
    ['secret key', secretKey],
  ])
  const remember = (what: string, value: unknown) => secrets.set(what, String(value))
  const person = await api.person()
  const { token, email } = person
  remember('session token', token)
  remember('refresh token', person.refreshToken)
  const refreshed = await api.call('POST', '/v1/auth/refresh', { body: { refresh_token: person.refreshToken } })
  remember('second refresh token', refreshed.body['refresh_token'])

  const setup = await api.call('POST', '/v1/auth/2fa/setup', { token })
  const totp = String(setup.body['secret'])
  remember('TOTP secret', totp)
  const code = () => new TOTP({ secret: Secret.fromBase32(totp) }).generate({ timestamp: api.clock.now().getTime() })
  const verified = await api.call('POST', '/v1/auth/2fa/verify', { token, body: { code: code() } })
  for (const [i, recovery] of verified.body['recovery_codes'].entries()) remember(`recovery code ${i}`, recovery)
  const wrong = 'a wrong password somebody typed'
  remember('wrong password', wrong)
  await api.call('POST', '/v1/auth/login', { body: { email, password: wrong } })
  await api.call('POST', '/v1/auth/login', { body: { email, password: testPassword, code: '999999' } })
  await api.call('POST', '/v1/auth/login', {
    body: { email, password: testPassword, code: secrets.get('recovery code 0') },
  })
  await api.call('POST', '/v1/auth/login', { body: { email: [wrong], password: { wrong } } })

  const headers = { 'idempotency-key': 'same-answer-twice' }
  const pat = await api.call('POST', '/v1/auth/tokens', { token, body: { name: 'x' }, headers })
  const again = await api.call('POST', '/v1/auth/tokens', { token, body: { name: 'x' }, headers })
  expect(again.body['token']).toBe(pat.body['token'])
  remember('access token', pat.body['token'])
  await api.call('GET', `/v1/projects?token=${pat.body['token']}`, { token: pat.body['token'] })
  await api.call('GET', '/v1/audit-logs', { token: `${token}broken` })

  await api.call('POST', '/v1/apps', { token, body: { name: 'shop', git_url: '' } })
  const app = await api.call('GET', '/v1/apps/shop/secret', { token })
  remember('webhook secret', app.body['scm_webhook_secret'])
  const deployToken = 'glpat-a-token-that-reads-the-repository'
  await api.call('PATCH', '/v1/apps/shop', { token, body: { port: 8080, git_url: 'https://git.example/a.git' } })
  const credential = { kind: 'token', token: deployToken }
  const given = await api.call('PUT', '/v1/apps/shop/git-credential', { token, body: credential })
  expect(given.status).toBe(200)
  await api.call('PUT', '/v1/apps/shop/git-credential', { token, body: { ...credential, kind: 'ssh_key' } })
  await api.call('GET', '/v1/apps/shop/git-credential', { token })
  remember('deploy token', deployToken)
  const registryToken = 'ghp-a-token-that-reads-images'
  const login = { host: 'ghcr.io', username: 'ada', password: registryToken }
  expect((await api.call('PUT', '/v1/registry-credentials', { token, body: login })).status).toBe(200)
  await api.call('GET', '/v1/registry-credentials', { token })
  remember('registry token', registryToken)
  const passwords = { current_password: testPassword, new_password: newPassword }
  await api.call('POST', '/v1/auth/password', { token, body: passwords, headers: { 'idempotency-key': 'once' } })
  await api.call('POST', '/v1/auth/refresh', { body: { refresh_token: person.refreshToken } })
  return secrets
}

async function dump(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const tables = await client.query<{ name: string }>(
      `SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'`,
    )
    const texts = []
    for (const { name } of tables.rows) {
      // Read all columns as text. Binary columns are decoded below, because they may contain text.
      const { rows } = await client.query<{ row: string }>(`SELECT t::text AS row FROM ${pg.escapeIdentifier(name)} t`)
      texts.push(...rows.map(({ row }) => row))
    }
    const text = texts.join('\n')
    const binary = [...text.matchAll(/\\\\x([0-9a-f]+)/g)].map(match =>
      Buffer.from(match[1] ?? '', 'hex').toString('latin1'),
    )
    return [text, ...binary].join('\n')
  } finally {
    await client.end()
  }
}

it('the API writes no secret to logs or tables in clear text', async () => {
  const lines: string[] = []
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString())
      done()
    },
  })
  await using api = await startWholeApi({ env: { MOTE_SECRET_KEY: secretKey }, log: pino({ level: 'trace' }, sink) })
  const secrets = await useEverySecret(api)
  expect(secrets.size).toBeGreaterThan(18)
  expect([...secrets].filter(([, value]) => value === 'undefined' || value.length < 6)).toEqual([])
  const logged = lines.join('')
  expect(lines.length).toBeGreaterThan(15)
  const stored = await dump(api.url)
  for (const [what, secret] of secrets) {
    expect(logged.includes(secret), `${what} is in the logs`).toBe(false)
    expect(stored.includes(secret), `${what} is in the database`).toBe(false)
  }
  // Harmless texts that must be present show that the logs and the rows were really searched.
  expect(stored).toContain('token.created')
  expect(logged).toContain('/v1/auth/tokens')
})
