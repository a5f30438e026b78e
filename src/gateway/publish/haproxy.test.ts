/** Tests publishing routes to a real HAProxy that is never reloaded. */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { freePort } from '../../../test/support/free-port.ts'
import { until } from '../../../test/support/wait.ts'
import { type GatewayFixture, gatewayFixture } from '../../../test/support/gateway/gateway.ts'
import { haproxyConfig } from './haproxy-config.ts'
import { type HaproxyState, commandsFor, desiredOf } from './haproxy-plan.ts'
import type { Route } from '../../contract/gateway.ts'

const haproxy = '/usr/sbin/haproxy'

interface Edge {
  readonly port: number
  restart(): Promise<void>
}

/** Starts HAProxy, and a gateway that publishes its routes to it. */
async function startEdge(cleanup: AsyncDisposableStack): Promise<{ edge: Edge; fixture: GatewayFixture }> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-haproxy-'))
  cleanup.defer(() => rm(dir, { recursive: true, force: true }))
  const shape = { backends: 4, servers: 3, socket: join(dir, 'haproxy.sock'), mapFile: join(dir, 'hosts.map') }
  const publish = { port: 0, entryPoints: [], haproxy: shape }
  const fixture = cleanup.use(await gatewayFixture({ publish, trustedProxies: ['127.0.0.1'] }))
  const port = await freePort()
  const file = join(dir, 'haproxy.cfg')
  await writeFile(shape.mapFile, '')
  await writeFile(file, haproxyConfig(shape, { host: '127.0.0.1', port: fixture.gateway.port }, `127.0.0.1:${port}`))
  let child = spawn(haproxy, ['-db', '-f', file], { stdio: 'ignore' })
  const up = () =>
    until(async () => (await fixture.get('/', { port }).catch(() => undefined)) !== undefined, {
      what: 'HAProxy is up',
    })
  const stop = async () => {
    if (child.exitCode !== null) throw new Error(`HAProxy ended by itself with ${child.exitCode}`)
    const gone = new Promise(resolve => child.once('exit', resolve))
    child.kill('SIGKILL')
    await gone
  }
  cleanup.defer(stop)
  await up()
  const restart = async () => {
    await stop()
    child = spawn(haproxy, ['-db', '-f', file], { stdio: 'ignore' })
    await up()
  }
  return { edge: { port, restart }, fixture }
}

/** Returns whether HAProxy sends requests for the app directly to its VMs: then the gateway does not count them. */
async function isDirect({ gateway }: GatewayFixture, ask: () => Promise<{ status: number }>): Promise<boolean> {
  const before = gateway.served()
  return (await ask()).status === 200 && gateway.served() === before
}

it.skipIf(!existsSync(haproxy))(
  'HAProxy sends requests for live apps directly to their VMs, and all others to the gateway',
  async () => {
    await using cleanup = new AsyncDisposableStack()
    const { edge, fixture } = await startEdge(cleanup)
    const ask = (path = '/') => fixture.get(path, { port: edge.port })
    const [a, b] = [
      await fixture.backend((req, res) =>
        res.end(`a ${req.headers['x-forwarded-for']} ${req.headers['x-forwarded-proto']}`),
      ),
      await fixture.backend((_, res) => res.end('b')),
    ]
    expect((await ask()).status).toBe(404)
    await fixture.publish({ backends: [a] })
    await until(() => isDirect(fixture, ask), { what: 'HAProxy serves the app directly' })
    expect((await ask()).body).toBe('a 127.0.0.1 http')

    // The app sleeps, so HAProxy sends the request to the gateway, which wakes the app.
    await fixture.publish({ state: 'sleeping' })
    await until(async () => fixture.wakes.length > 0 || void ask().catch(() => {}), {
      everyMs: 100,
      what: 'the gateway gets the request',
    })
    const held = ask()
    await fixture.publish({ backends: [b] })
    expect((await held).body).toBe('b')
    await until(() => isDirect(fixture, ask), { what: 'HAProxy serves the app directly again' })

    // A restarted HAProxy has lost its routes and is configured again.
    await edge.restart()
    await until(() => isDirect(fixture, ask), { everyMs: 50, what: 'HAProxy is configured again' })

    // There are more apps than HAProxy backends. The gateway serves the others, which is slower.
    for (let n = 0; n < 6; n++)
      await fixture.publish({ hostname: `app${n}.localhost`, appId: `app${n}`, backends: [b] })
    for (let n = 0; n < 6; n++)
      expect((await fixture.get('/', { port: edge.port, headers: { host: `app${n}.localhost` } })).body).toBe('b')
  },
  60_000,
)

it.skipIf(!existsSync(haproxy))(
  'no request fails when a route changes under load',
  async () => {
    await using cleanup = new AsyncDisposableStack()
    const { edge, fixture } = await startEdge(cleanup)
    const [a, b] = [await fixture.backend((_, res) => res.end('a')), await fixture.backend((_, res) => res.end('b'))]
    await fixture.publish({ backends: [a] })
    const answers: string[] = []
    let running = true
    const client = async () => {
      while (running) {
        const { status, body } = await fixture.get('/', { port: edge.port })
        answers.push(`${status} ${body}`)
      }
    }
    const clients = Array.from({ length: 10 }, client)
    for (let n = 0; n < 6; n++) {
      const next = n % 2 === 0 ? b : a
      const before = next.hits()
      await fixture.publish({ backends: [next] })
      await until(() => next.hits() > before + 30, { what: 'requests after the switch' })
    }
    running = false
    await Promise.all(clients)
    expect(new Set(answers)).toEqual(new Set(['200 a', '200 b']))
  },
  60_000,
)

const shape = { backends: 2, servers: 2, socket: '', mapFile: 'm' }
const route = (appId: string, addresses: readonly string[], change: Partial<Route> = {}): Route => ({
  hostname: `${appId}.example`,
  projectId: 'p',
  appId,
  state: 'live',
  drainSeconds: 1,
  version: 1,
  backends: addresses.map(address => ({ vmId: address, host: address, port: 80 })),
  ...change,
})
const off = { address: '0.0.0.0:80', enabled: false }

it('an app keeps its backend, and apps that do not fit, sleep or have unusual hostnames are left to the gateway', () => {
  const assigned = new Map<string, string>()
  const first = desiredOf(
    [route('a', ['1']), route('b', ['2'], { state: 'sleeping' }), route('c', ['3', '4', '5'])],
    shape,
    assigned,
  )
  expect([...first.map]).toEqual([['a.example', 'mote_1']])
  const routes = [
    route('x', ['9']),
    route('a', ['1']),
    route('y', ['8']),
    route('z', ['7'], { hostname: 'a b; shutdown' }),
  ]
  const second = desiredOf(routes, shape, assigned)
  expect(second.map.get('a.example')).toBe('mote_1')
  expect([...second.map.keys()]).toEqual(['x.example', 'a.example'])
  expect(desiredOf([route('y', ['8'])], shape, assigned).map.get('y.example')).toBe('mote_1')
})

it('the commands start new servers, then change the map, then stop the old servers, each once', () => {
  const on = (address: string) => ({ address, enabled: true })
  const state: HaproxyState = {
    map: new Map([
      ['old.example', 'mote_2'],
      ['a.example', 'mote_2'],
    ]),
    servers: new Map([
      [
        'mote_1',
        new Map([
          ['s1', off],
          ['s2', off],
        ]),
      ],
      [
        'mote_2',
        new Map([
          ['s1', on('9:80')],
          ['s2', off],
        ]),
      ],
    ]),
  }
  const desired = desiredOf([route('a', ['1'])], shape, new Map())
  expect(commandsFor(desired, state, 'm')).toEqual([
    'set server mote_1/s1 addr 1 port 80',
    'set server mote_1/s1 state ready',
    'set map m a.example mote_1',
    'del map m old.example',
    'set server mote_2/s1 state maint',
  ])
  const reached: HaproxyState = {
    map: desired.map,
    servers: new Map([
      [
        'mote_1',
        new Map([
          ['s1', on('1:80')],
          ['s2', off],
        ]),
      ],
      [
        'mote_2',
        new Map([
          ['s1', off],
          ['s2', off],
        ]),
      ],
    ]),
  }
  expect(commandsFor(desired, reached, 'm')).toEqual([])
})
