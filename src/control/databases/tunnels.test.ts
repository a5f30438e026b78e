/** Tests access to tunnels with the requests that a bastion sends. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { type TunnelLogin, type TunnelOpenAnswer, gatewaySubjects } from '../../contract/gateway.ts'

let system: TestSystem
let user: TestUser
let id: string
let host: string

const key = 'AAAAC3NzaC1lZDI1NTE5AAAAI'.padEnd(68, 'x')

beforeAll(async () => {
  system = await testSystem()
  user = await system.user()
  id = (await user.post('/v1/databases', { name: 'shop', engine: 'postgres' })).body.id
  host = await until(async () => String((await user.get(`/v1/databases/${id}/connection`)).body.database_host ?? ''), {
    everyMs: 50,
    timeoutMs: 90_000,
    what: 'the database runs',
  })
}, 120_000)
afterAll(() => system[Symbol.asyncDispose]())

const logIn = async (credential: TunnelLogin['credential'], name = id): Promise<string | null> => {
  const login = { user: name, ip: '127.0.0.1', credential }
  return (
    (await system.bus.request(gatewaySubjects.tunnelLogin, login, { timeoutMs: 20_000 })) as { grant: string | null }
  ).grant
}
const byToken = (token: string, name?: string) => logIn({ kind: 'token', token }, name)
const open = async (grant: string, to = host, port = 5432): Promise<TunnelOpenAnswer> =>
  (await system.bus.request(
    gatewaySubjects.tunnelOpen,
    { grant, host: to, port },
    { timeoutMs: 20_000 },
  )) as TunnelOpenAnswer
const token = async (by: TestUser, more: object = {}) =>
  (await by.post('/v1/auth/tokens', { name: 'tunnel', ...more })).body

describe('an access token', { timeout: 60_000 }, () => {
  it('opens tunnels only to the database that the login names', async () => {
    const grant = (await byToken((await token(user)).token)) ?? ''
    expect((await open(grant)).endpoint).toMatchObject({ port: expect.any(Number) })
    expect(await open(grant, '127.0.0.1')).toMatchObject({ endpoint: null, reason: expect.stringContaining(host) })
    expect((await open(grant, host, 22)).endpoint).toBeNull()
  })

  it('opens no tunnels after it is revoked, even if the login already has a grant', async () => {
    const made = await token(user)
    const grant = (await byToken(made.token)) ?? ''
    expect((await open(grant)).endpoint).not.toBeNull()
    await user.delete(`/v1/auth/tokens/${made.id}`)
    expect((await open(grant)).endpoint).toBeNull()
    expect(await byToken(made.token)).toBeNull()
  })

  it('opens tunnels only with write access to the project', async () => {
    expect(await byToken((await token(user, { scopes: ['read'] })).token)).toBeNull()
    const stranger = await system.user()
    expect(await byToken((await token(stranger)).token)).toBeNull()
    expect(await byToken('svc_pat_nonsense')).toBeNull()
    expect(await byToken(user.token ?? '')).toBeNull()
    expect(await byToken((await token(user)).token, 'root')).toBeNull()
  })

  it('is recorded in the audit log by the login to a database', async () => {
    const { items } = (await user.get('/v1/audit-logs?action=database.tunnel')).body
    expect(items[0]).toMatchObject({ resource_id: id, details: { name: 'shop', branch: 'main', by: 'token' } })
  })
})

describe('a password for one database login', { timeout: 60_000 }, () => {
  const make = async (by: TestUser, of = id) => by.post(`/v1/databases/${of}/tunnel-password`, {})

  it('opens a tunnel to its database once', async () => {
    const { status, body } = await make(user)
    expect([status, body.ssh_user]).toEqual([200, id])
    expect(body.password).toMatch(/^svc_tun_[\w-]{43}$/)
    expect(await byToken(body.password, crypto.randomUUID())).toBeNull()
    const grant = (await byToken(body.password)) ?? ''
    expect((await open(grant)).endpoint).not.toBeNull()
    expect(await open(grant, '127.0.0.1')).toMatchObject({ endpoint: null })
    expect(await byToken(body.password)).toBeNull()
    // The API does not accept the password as a credential.
    const asToken = await fetch(`${system.control.url}/v1/auth/me`, {
      headers: { authorization: `Bearer ${(await make(user)).body.password}` },
    })
    expect(asToken.status).toBe(401)
  })

  it('is given only to users with write access to the project', async () => {
    expect((await make(await system.user())).status).toBe(404)
  })

  it.each(['session', 'token'] as const)('becomes invalid together with the %s that requested it', async kind => {
    const { email, password } = user
    const login = (await system.api.post('/v1/auth/login', { email, password })).body
    const made = await token(user)
    const asking = system.api.as(kind === 'session' ? login.token : made.token)
    const ask = async (): Promise<string> =>
      (await asking.post(`/v1/databases/${id}/tunnel-password`, {})).body.password
    const [first, second] = [await ask(), await ask()]
    const grant = (await byToken(first)) ?? ''
    expect((await open(grant)).endpoint).not.toBeNull()
    if (kind === 'token') await user.delete(`/v1/auth/tokens/${made.id}`)
    else await system.api.post('/v1/auth/logout', { refresh_token: login.refresh_token })
    expect((await open(grant)).endpoint).toBeNull()
    expect(await byToken(second)).toBeNull()
  })
})

it("the connection details of a database list the bastions' host keys, and their SSH command accepts only these keys", async () => {
  const connection = async () => (await user.get(`/v1/databases/${id}/connection`)).body
  const publicKey = `ssh-ed25519 ${key}`
  expect((await connection()).ssh_host_keys).toEqual([])
  expect((await connection()).ssh_tunnel_command).toContain('accept-new')
  await system.bus.request(gatewaySubjects.tunnelKey, { publicKey }, { timeoutMs: 20_000 })
  const named = await connection()
  expect(named.ssh_host_keys).toEqual([publicKey])
  expect(named.ssh_tunnel_command).toContain(`-o 'KnownHostsCommand=/bin/echo mote-bastion ${publicKey}'`)
  expect(named.ssh_tunnel_command).toContain('StrictHostKeyChecking=yes')
  const evil = { publicKey: "ssh-ed25519 AAAA'; id; '" }
  await expect(system.bus.request(gatewaySubjects.tunnelKey, evil, { timeoutMs: 20_000 })).rejects.toThrow()
  expect((await connection()).ssh_host_keys).toEqual([publicKey])
})

it("the bastion's request with a forged grant is refused", async () => {
  const grant = (await byToken((await token(user)).token)) ?? ''
  const [body = '', mac] = grant.split('.')
  const forged = Buffer.from(Buffer.from(body, 'base64url').toString().replace(id, crypto.randomUUID())).toString(
    'base64url',
  )
  expect((await open(`${forged}.${mac}`)).endpoint).toBeNull()
  expect((await open('nonsense')).endpoint).toBeNull()
})

it('an SSH key opens tunnels while it is registered', { timeout: 60_000 }, async () => {
  const line = `ssh-ed25519 ${key} me@laptop`
  const asked = { kind: 'key', publicKey: key, proven: true } as const
  expect(await logIn(asked)).toBeNull()
  const added = await user.post('/v1/auth/ssh-keys', { name: 'laptop', public_key: line })
  expect(added.body).toMatchObject({
    name: 'laptop',
    fingerprint: expect.stringMatching(/^SHA256:/),
    last_used_at: null,
  })
  expect((await user.post('/v1/auth/ssh-keys', { name: 'again', public_key: line })).body.code).toBe('name_taken')
  expect((await user.post('/v1/auth/ssh-keys', { name: 'x', public_key: 'ssh-dss AAAA' })).status).toBe(400)
  // A login with a key whose possession the client has not proved gets a grant, but the grant opens no tunnel.
  expect((await open((await logIn({ ...asked, proven: false })) ?? '')).endpoint).toBeNull()
  const grant = (await logIn(asked)) ?? ''
  expect((await open(grant)).endpoint).not.toBeNull()
  expect((await user.get('/v1/auth/ssh-keys')).body[0].last_used_at).not.toBeNull()
  await user.delete(`/v1/auth/ssh-keys/${added.body.id}`)
  expect((await open(grant)).endpoint).toBeNull()
})
