/** Tests TCP services that clients select by TLS server name, with a control plane, a gateway and simulated VMs. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { cli } from '../../../test/support/cli.ts'
import { freePort } from '../../../test/support/free-port.ts'
import { makeCertificate } from '../../../test/support/gateway/tls.ts'
import { type TestSystem, testSystem, type TestUser } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { statement } from '../../db/db.ts'

let dir: string
let system: TestSystem
let ann: TestUser
let bob: TestUser
let [own, shared] = [0, 0]
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-tls-services-'))
  await makeCertificate(dir, 'apps', ['*.localhost', 'mqtt.example.com'])
  ;[own, shared] = [await freePort(), await freePort()]
  const ports = { first: own, last: own }
  system = await testSystem({
    config: { tcpPorts: ports, tcpTlsPort: shared },
    gateway: {
      tcp: { ports, idleMs: 0 },
      tcpTls: { port: shared, idleMs: 0, handshakeMs: 5000 },
      tls: { port: undefined, certificates: dir, redirect: false, hstsSeconds: 0 },
    },
  })
  ann = await system.user()
  bob = await system.user()
  await ann.post('/v1/apps', { name: 'web', git_url: '', drain_timeout: 0 })
}, 60_000)
afterAll(async () => {
  await system[Symbol.asyncDispose]()
  await rm(dir, { recursive: true })
})

type Given = { readonly port: number; readonly tls?: string }
const put = (user: TestUser, name: string, body: Given, app = 'web') =>
  user.call('PUT', `/v1/apps/${app}/services/${name}`, body)
const hostnameOf = async (user: TestUser, app: string) => (await user.get(`/v1/apps/${app}`)).body.hostname as string
const names = async (hostname: string) => {
  const rows = await system.database.db.rows(
    statement<{ hostname: string }>(
      'test.tlsServices.routes',
      `SELECT r.hostname FROM route r JOIN route h ON h.app_id = r.app_id AND h.hostname = $1
       WHERE r.state <> 'gone' ORDER BY r.hostname`,
    ),
    [hostname],
  )
  return rows.map(row => row.hostname)
}
/** Sends an HTTP request over TLS and returns the response; an empty text if the connection fails. */
const asks = (servername: string) =>
  new Promise<string>(resolve => {
    let all = ''
    const socket = connect({ port: shared, host: '127.0.0.1', servername, rejectUnauthorized: false })
    socket.on('data', (chunk: Buffer) => (all += chunk.toString())).once('close', () => resolve(all))
    socket.on('error', () => undefined).write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  })

it("a service with TLS has the app's hostname and the shared port as its address, and a route for each hostname of the app", async () => {
  const hostname = await hostnameOf(ann, 'web')
  const made = await put(ann, 'mqtt', { port: 1883, tls: 'sni' })
  expect(made.body).toMatchObject({ tls: 'sni', public_port: shared, address: `${hostname}:${shared}` })
  expect(await names(hostname)).toEqual([`tls/${hostname}`, hostname])
  await system.database.db.run(
    statement(
      'test.tlsServices.domain',
      `INSERT INTO domain (id, project_id, app_id, name, token, state)
       SELECT gen_random_uuid(), project_id, id, 'mqtt.example.com', 'token', 'verified' FROM app WHERE hostname = $1`,
    ),
    [hostname],
  )
  // A request without `tls` does not change whether the service uses TLS.
  expect((await put(ann, 'mqtt', { port: 1884 })).body).toMatchObject({ port: 1884, tls: 'sni' })
  expect(await names(hostname)).toEqual(
    [`tls/${hostname}`, 'tls/mqtt.example.com', hostname, 'mqtt.example.com'].sort(),
  )
})

it('an app has at most one service with TLS, and a service can change between with and without TLS', async () => {
  const hostname = await hostnameOf(ann, 'web')
  const second = await put(ann, 'other', { port: 1, tls: 'sni' })
  expect([second.status, second.body.error]).toEqual([409, expect.stringContaining('"mqtt"')])
  expect((await put(ann, 'mqtt', { port: 1883, tls: 'none' })).body).toMatchObject({ tls: 'none', public_port: own })
  expect(await names(hostname)).not.toContain(`tls/${hostname}`)
  expect(await names(hostname)).toContain(`tcp/${own}`)
  expect((await put(ann, 'other', { port: 1, tls: 'sni' })).status).toBe(200)
  const full = await put(ann, 'mqtt', { port: 1, tls: 'sni' })
  expect(full.status).toBe(409)
  // A change that the API refuses has no effect.
  expect((await ann.get('/v1/apps/web/services')).body).toMatchObject([
    { name: 'mqtt', port: 1883, tls: 'none' },
    { name: 'other', port: 1, tls: 'sni' },
  ])
  for (const name of ['mqtt', 'other']) expect((await ann.delete(`/v1/apps/web/services/${name}`)).status).toBe(200)
  expect((await names(hostname)).filter(name => name.startsWith('t'))).toEqual([])
  expect((await put(ann, 'mqtt', { port: 1, tls: 'yes' })).status).toBe(400)
})

it('a service with TLS is reached only through hostnames of its own app, not through those of another tenant', async () => {
  await until(async () => (await ann.post('/v1/apps/web/deploy', { image: 'example.com/a:1' })).status === 200, {
    what: 'a host',
  })
  await bob.post('/v1/apps', { name: 'web', git_url: '' })
  const [mine, others] = [await hostnameOf(ann, 'web'), await hostnameOf(bob, 'web')]
  const { port } = (await ann.get('/v1/apps/web')).body
  await put(ann, 'mqtt', { port, tls: 'sni' })
  await until(async () => /^HTTP\/1.1 \d{3}/.test(await asks(mine)), { what: 'an answer' })
  expect(await asks('mqtt.example.com')).toMatch(/^HTTP\/1.1 \d{3}/)
  // Bob's app has a hostname and a certificate, but no service.
  expect(await asks(others)).toBe('')
  expect(await asks('stranger.localhost')).toBe('')
  for (const answer of [await bob.get('/v1/apps/web/services/mqtt'), await bob.delete('/v1/apps/web/services/mqtt')])
    expect(answer.status).toBe(404)
  // Bob does not own mqtt.example.com, so his service gets a route for his own hostname only.
  await put(bob, 'mqtt', { port: 1, tls: 'sni' })
  expect(await names(others)).toEqual([`tls/${others}`, others].sort())
  await ann.delete('/v1/apps/web/services/mqtt')
  await until(async () => (await asks(mine)) === '', { what: 'the service to be closed' })
})

it('a service with TLS can be created with the command line and with mote.toml, and renamed with mote.toml', async () => {
  const env = { MOTE_URL: system.control.url, MOTE_TOKEN: bob.token ?? '' }
  const mote = cli({ home: join(system.dir, 'home'), env })
  const cwd = join(system.dir, 'folder')
  await mkdir(cwd)
  await bob.post('/v1/apps', { name: 'broker', git_url: '' })
  const hostname = await hostnameOf(bob, 'broker')
  const set = await mote.run(['services', 'set', 'mqtt', '8883', '--app', 'broker', '--tls', 'sni'])
  expect(set).toMatchObject({
    code: 0,
    out: expect.stringContaining(`${hostname}:${shared} leads to port 8883, with TLS`),
  })
  expect((await mote.run(['services', 'list', '--app', 'broker'])).out).toMatch(/mqtt +8883 +sni +broker-/)
  expect((await mote.run(['services', 'set', 'mqtt', '1', '--app', 'broker', '--tls', 'on'])).code).not.toBe(0)
  const deploy = async (more: string) => {
    await writeFile(join(cwd, 'mote.toml'), `app = "broker"\n[build]\nimage = "example.com/a:1"\n${more}`)
    expect(await mote.run(['deploy', '--yes'], { cwd })).toMatchObject({ code: 0 })
    const { body } = await bob.get('/v1/apps/broker/services')
    return body.map((one: { name: string; port: number; tls: string }) => [one.name, one.port, one.tls])
  }
  expect(await deploy('[services.mqtt]\nport = 1883\ntls = "sni"\n')).toEqual([['mqtt', 1883, 'sni']])
  expect(await deploy('[services.mqtts]\nport = 1883\ntls = "sni"\n')).toEqual([['mqtts', 1883, 'sni']])
  expect(await deploy('[services.mqtts]\nport = 1883\n')).toEqual([['mqtts', 1883, 'none']])
}, 60_000)

it('a service with TLS cannot be created if the installation has no shared port for TLS', async () => {
  await using plain = await testSystem({ agents: 0 })
  const user = await plain.user()
  await user.post('/v1/apps', { name: 'web', git_url: '' })
  const answer = await put(user, 'mqtt', { port: 1, tls: 'sni' })
  expect([answer.status, answer.body.error]).toEqual([409, expect.stringContaining('MOTE_TCP_TLS_PORT')])
})
