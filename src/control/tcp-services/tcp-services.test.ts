/** Tests TCP services with a control plane, a gateway and simulated VMs. */
import { globSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli } from '../../../test/support/cli.ts'
import { freePort } from '../../../test/support/free-port.ts'
import { type TestSystem, testSystem, type TestUser } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { statement } from '../../db/db.ts'

let system: TestSystem
let ann: TestUser
let bob: TestUser
/** The only port in the installation's range of public ports. */
let only: number
beforeAll(async () => {
  only = await freePort()
  const ports = { first: only, last: only }
  system = await testSystem({ config: { tcpPorts: ports }, gateway: { tcp: { ports, idleMs: 0 } } })
  ann = await system.user()
  bob = await system.user()
  await ann.post('/v1/apps', { name: 'web', git_url: '', drain_timeout: 0 })
}, 60_000)
afterAll(() => system[Symbol.asyncDispose]())

const put = (user: TestUser, name: string, port: number, app = 'web') =>
  user.call('PUT', `/v1/apps/${app}/services/${name}`, { port })
const routes = (port: number) =>
  system.database.db.rows(
    statement<{ state: string; ports: number[] }>(
      'test.tcpServices.routes',
      `SELECT state, ARRAY(SELECT (b->>'port')::int FROM jsonb_array_elements(backends) b) AS ports
       FROM route WHERE hostname = 'tcp/' || $1::int`,
    ),
    [port],
  )

describe('a TCP service', { timeout: 60_000 }, () => {
  it("gets a free public port, keeps it when the app's port changes, and releases it when the service is deleted", async () => {
    const made = await put(ann, 'mqtt', 1883)
    expect(made.body).toEqual({
      name: 'mqtt',
      port: 1883,
      tls: 'none',
      public_port: only,
      address: expect.stringMatching(new RegExp(`^web-.*:${only}$`)),
      created_at: expect.any(String),
    })
    expect((await put(ann, 'mqtt', 1884)).body).toMatchObject({ port: 1884, public_port: only })
    const full = await put(ann, 'other', 1)
    expect([full.status, full.body.error]).toEqual([409, expect.stringContaining('No port is free')])
    expect((await ann.get('/v1/apps/web/services')).body).toHaveLength(1)
    expect(await routes(only)).toEqual([{ state: 'down', ports: [] }])
    expect((await ann.delete('/v1/apps/web/services/mqtt')).status).toBe(200)
    expect(await routes(only)).toEqual([{ state: 'gone', ports: [] }])
    expect((await ann.delete('/v1/apps/web/services/mqtt')).status).toBe(404)
    expect((await put(ann, 'other', 1)).body).toMatchObject({ public_port: only })
    await ann.delete('/v1/apps/web/services/other')
  })

  it('cannot be accessed by other projects, and cannot be created for a worker', async () => {
    await put(ann, 'mqtt', 1883)
    for (const answer of [
      await bob.get('/v1/apps/web/services'),
      await bob.get('/v1/apps/web/services/mqtt'),
      await put(bob, 'mqtt', 1),
      await bob.delete('/v1/apps/web/services/mqtt'),
    ])
      expect(answer.status).toBe(404)
    // Workers do not listen on any port.
    await ann.post('/v1/apps', { name: 'worker', git_url: '', kind: 'worker', env_of: 'web' })
    expect((await put(ann, 'mqtt', 1, 'worker')).status).toBe(409)
  })

  it("forwards connections to its app's VMs: those for the app's own port to the endpoint that the host reports, others to the service's port in the VM", async () => {
    await until(async () => (await ann.post('/v1/apps/web/deploy', { image: 'example.com/a:1' })).status === 200, {
      what: 'a host',
    })
    const isLive = async () => (await routes(only))[0]?.state === 'live'
    await until(isLive, { what: 'the route' })
    expect((await routes(only))[0]?.ports).toEqual([1883])
    const { port } = (await ann.get('/v1/apps/web')).body
    await put(ann, 'mqtt', port)
    const [{ ports = [] } = {}] = await routes(only)
    // A simulated VM serves the app's port at a different port of its host.
    expect(ports).not.toEqual([port])
    // The VM's firewall on the host must allow gateways to reach the port.
    const isOpen = () =>
      globSync(`${system.dir}/**/wish.json`).some(file => {
        const { spec } = JSON.parse(readFileSync(file, 'utf8'))
        return spec.hostname === 'web' && spec.firewall.ports[0] === port
      })
    await until(isOpen, { what: 'the firewall of the VM' })
    const said = await new Promise<string>((resolve, reject) => {
      let all = ''
      const socket = connect({ port: only, host: '127.0.0.1' })
      socket.on('data', chunk => (all += chunk.toString())).once('close', () => resolve(all))
      socket.once('error', reject).write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    })
    expect(said).toMatch(/^HTTP\/1.1 \d{3}/)
  })

  it('is deleted with its app, which releases its public port', async () => {
    await ann.delete('/v1/apps/web')
    const isFree = async () => {
      await bob.post('/v1/apps', { name: 'taker', git_url: '' })
      return (await put(bob, 'mqtt', 1883, 'taker')).status === 200
    }
    await until(isFree, { what: 'the port to be free' })
    expect(await routes(only)).toEqual([{ state: 'down', ports: [] }])
  })

  it('can be created, listed and deleted with the command line and with mote.toml', async () => {
    const env = { MOTE_URL: system.control.url, MOTE_TOKEN: bob.token ?? '' }
    const mote = cli({ home: join(system.dir, 'home'), env })
    const set = await mote.run(['services', 'set', 'mqtt', '8883', '--app', 'taker'])
    expect(set).toMatchObject({ code: 0, out: expect.stringContaining(`:${only} leads to port 8883`) })
    expect((await mote.run(['services', 'list', '--app', 'taker'])).out).toMatch(/mqtt +8883 +taker-/)
    expect((await mote.run(['services', 'delete', 'mqtt', '--app', 'taker'])).code).toBe(0)
    expect((await mote.run(['services', 'list', '--app', 'taker'])).out).toContain('No services')

    // Repeat these operations with mote.toml.
    const file = 'app = "taker"\n[build]\nimage = "example.com/a:1"\n'
    const cwd = join(system.dir, 'folder')
    await mkdir(cwd)
    const deploy = async (more: string) => {
      await writeFile(join(cwd, 'mote.toml'), file + more)
      expect(await mote.run(['deploy', '--yes'], { cwd })).toMatchObject({ code: 0 })
      return (await bob.get('/v1/apps/taker/services')).body.map((one: { name: string; port: number }) => [
        one.name,
        one.port,
      ])
    }
    expect(await deploy('[services.mqtt]\nport = 1883\n')).toEqual([['mqtt', 1883]])
    expect(await deploy('[services.mqtt]\nport = 1884\n')).toEqual([['mqtt', 1884]])
    expect(await deploy('')).toEqual([['mqtt', 1884]])
    expect(await deploy('[services]\n')).toEqual([])
  })
})

it('a TCP service cannot be created if the installation has no range of public ports', async () => {
  await using plain = await testSystem({ agents: 0 })
  const user = await plain.user()
  await user.post('/v1/apps', { name: 'web', git_url: '' })
  const answer = await user.call('PUT', '/v1/apps/web/services/mqtt', { port: 1 })
  expect([answer.status, answer.body.error]).toEqual([409, expect.stringContaining('MOTE_TCP_PORTS')])
})
