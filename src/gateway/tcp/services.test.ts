/** Tests TCP services of a real gateway, with TCP servers in place of VMs. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, it } from 'vitest'
import { freePort } from '../../../test/support/free-port.ts'
import { echoVm, received } from '../../../test/support/gateway/echo-vm.ts'
import { type GatewayFixture, gatewayFixture } from '../../../test/support/gateway/gateway.ts'
import { until } from '../../../test/support/wait.ts'
import { tcpName } from '../../contract/gateway.ts'
import type { GatewayConfig } from '../config.ts'

let fixture: GatewayFixture
let cleanup = new AsyncDisposableStack()
afterEach(async () => {
  await cleanup.disposeAsync()
  cleanup = new AsyncDisposableStack()
})

interface World {
  readonly port: number
  readonly name: string
}

async function start(change: Partial<GatewayConfig> = {}, idleMs = 0): Promise<World> {
  const port = await freePort()
  fixture = cleanup.use(await gatewayFixture({ tcp: { ports: { first: port, last: port }, idleMs }, ...change }))
  return { port, name: tcpName(port) }
}

/** Starts a TCP server that sends its name on each connection, and then echoes what it receives. */
async function vm(word: string) {
  const { backend, sockets } = cleanup.use(await echoVm(word))
  return { ...backend, sockets }
}

function dial(port: number) {
  const socket = connect({ port, host: '127.0.0.1' })
  cleanup.defer(() => void socket.destroy())
  return { socket, ...received(socket) }
}
const refused = (port: number) =>
  until(
    () =>
      new Promise<boolean>(resolve => {
        const socket = connect({ port, host: '127.0.0.1' })
        socket.once('connect', () => resolve(socket.destroy() === undefined)).once('error', () => resolve(true))
      }),
    { what: 'the port to be closed' },
  )
const listening = (port: number) =>
  until(
    () =>
      new Promise<boolean>(resolve => {
        const socket = connect({ port, host: '127.0.0.1' })
        socket.once('connect', () => resolve(!socket.destroy().connecting)).once('error', () => resolve(false))
      }),
    { what: 'the gateway to listen' },
  )
const sees = (one: { seen(): string }, what: string) => until(() => one.seen() === what, { what: `"${what}"` })

describe('a TCP service', () => {
  it('forwards bytes in both directions, even after one side has closed its direction', async () => {
    const { port, name } = await start()
    const one = await vm('one')
    await fixture.publish({ hostname: name, backends: [one] })
    await listening(port)
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    socket.write('hello')
    socket.end()
    expect(await text(socket)).toBe('one hello')
  })

  it('is closed when it is deleted, and ports without a service are never opened', async () => {
    const { port, name } = await start()
    const one = await vm('one')
    const other = await freePort()
    await fixture.publish({ hostname: tcpName(other), appId: 'b', backends: [one] })
    await refused(other)
    await fixture.publish({ hostname: name, backends: [one] })
    await listening(port)
    const open = dial(port)
    await sees(open, 'one ')
    await fixture.publish({ hostname: name, state: 'gone' })
    await open.closed
    await refused(port)
  })

  it('cannot be reached as a hostname, and is not published to edge proxies', async () => {
    const { port, name } = await start({ publish: { port: 0, entryPoints: [], haproxy: undefined } })
    await fixture.publish({ hostname: name, backends: [await vm('one')] })
    expect((await fixture.get('/', { headers: { host: name } })).status).toBeGreaterThanOrEqual(400)
    expect((await fixture.get('/', { headers: { host: `tcp:${port}` } })).status).toBe(404)
    const feed = await fetch(`http://127.0.0.1:${fixture.gateway.publishPort}/traefik`)
    expect(await feed.text()).not.toContain('tcp/')
  })

  it('wakes its app, and holds the connection until the app is awake', async () => {
    const { port, name } = await start()
    const one = await vm('one')
    await fixture.publish({ hostname: name, state: 'sleeping' })
    await listening(port)
    const held = dial(port)
    held.socket.write('early')
    await until(() => fixture.wakes.includes('a'), { what: 'the wake' })
    expect(held.seen()).toBe('')
    await fixture.publish({ hostname: name, backends: [one] })
    await sees(held, 'one early')
  })

  it('keeps connections to the old version during the drain time, and sends new ones to the new version', async () => {
    const { port, name } = await start()
    const [one, two] = [await vm('one'), await vm('two')]
    await fixture.publish({ hostname: name, backends: [one], drainSeconds: 60 })
    await listening(port)
    const old = dial(port)
    await sees(old, 'one ')
    await fixture.publish({ hostname: name, backends: [two], drainSeconds: 60 })
    old.socket.write('still')
    await sees(old, 'one still')
    await sees(dial(port), 'two ')
    // Without a drain time, the connection to the replaced VM is closed at once.
    const second = dial(port)
    await sees(second, 'two ')
    await fixture.publish({ hostname: name, backends: [one], drainSeconds: 0 })
    await second.closed
  })

  it('connects to another VM if one refuses the connection', async () => {
    const { port, name } = await start()
    const dead = { vmId: 'dead', host: '127.0.0.1', port: await freePort() }
    await fixture.publish({ hostname: name, backends: [dead, await vm('alive')] })
    await listening(port)
    for (let n = 0; n < 4; n++) await sees(dial(port), 'alive ')
  })

  it('limits the number of connections of an app, and closes idle ones', async () => {
    const limits = {
      appOpen: 1,
      appPerSecond: 0,
      clientOpen: 0,
      clientPerSecond: 0,
      connections: 100,
      connectionsPerClient: 100,
    }
    const { port, name } = await start({ limits }, 300)
    await fixture.publish({ hostname: name, backends: [await vm('one')] })
    await listening(port)
    // The connection that `listening` has opened may still count for a moment.
    let first = dial(port)
    const isFirst = async () => {
      if (first.seen() === 'one ') return true
      if (first.socket.destroyed) first = dial(port)
      return false
    }
    await until(isFirst, { what: 'the first connection' })
    const second = dial(port)
    await second.closed
    expect(second.seen()).toBe('')
    await first.closed
  })

  it('listens once another program has released its port, unless the service was deleted meanwhile', async () => {
    const { port, name } = await start()
    const taken = createServer(socket => socket.destroy()).listen(port, '127.0.0.1')
    await once(taken, 'listening')
    await fixture.publish({ hostname: name, backends: [await vm('one')] })
    await fixture.publish({ hostname: name, state: 'gone' })
    await fixture.publish({ hostname: name, backends: [await vm('two')] })
    taken.close()
    await once(taken, 'close')
    await listening(port)
    await sees(dial(port), 'two ')
    await fixture.publish({ hostname: name, state: 'gone' })
    await refused(port)
  })

  it('counts open connections as traffic of its app', async () => {
    const { port, name } = await start()
    await fixture.publish({ hostname: name, backends: [await vm('one')] })
    await listening(port)
    await sees(dial(port), 'one ')
    const isReported = () => fixture.reports.some(({ apps }) => apps.some(app => app.appId === 'a' && app.open === 1))
    await until(isReported, { what: 'a report' })
  })

  it('is served by every gateway, and a stopped gateway closes its connections', async () => {
    const { port, name } = await start()
    const second = await freePort()
    const other = await fixture.add({ tcp: { ports: { first: second, last: second }, idleMs: 0 } })
    const one = await vm('one')
    await fixture.publish({ hostname: name, backends: [one] })
    await fixture.publish({ hostname: tcpName(second), backends: [one] })
    await listening(port)
    await listening(second)
    const open = dial(second)
    await sees(open, 'one ')
    await other.stop(0)
    await open.closed
    await sees(dial(port), 'one ')
  })
})
