/** Tests of properties that only the NATS bus has: reconnects and permissions. */
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { natsMissing, type NatsServer, startNatsServer } from '../../test/support/nats.ts'
import { until } from '../../test/support/wait.ts'
import { type Bus, BusError, type Message } from './bus.ts'
import { connectNatsBus, type NatsBusOptions } from './nats.ts'
import { type BusRole, natsAuthorization, permissionsFor } from './permissions.ts'

const log = pino({ level: 'silent' })
const open: Bus[] = []
let server: NatsServer

const connect = async (options: Partial<NatsBusOptions> = {}) => {
  const bus = await connectNatsBus({ servers: server.url, name: 'test', log, ...options })
  open.push(bus)
  return bus
}
const tearDown = async () => {
  await Promise.all(open.splice(0).map(bus => bus.close()))
  await server?.stop()
}
const suite = natsMissing === undefined ? describe : describe.skip
const named = (name: string) => (natsMissing === undefined ? name : `${name}: skipped, ${natsMissing}`)

suite(named('NATS connections'), () => {
  beforeEach(async () => {
    server = await startNatsServer()
  })
  afterEach(tearDown)

  test('a retained subscription resumes after a server crash without loss or duplicates', async () => {
    const [publisher, reader] = [await connect(), await connect()]
    const observed: Message[] = []
    await reader.subscribe('log.h.>', message => void observed.push(message), { from: 0 })
    const accepted: number[] = []
    const publishing = new AbortController()
    const publish = async () => {
      for (let n = 0; !publishing.signal.aborted; n++) {
        const id = `m${n}`
        // A publish that was not acknowledged is repeated with the same id.
        while (
          !(await publisher.publish('log.h.vm', n, { id }).then(
            () => true,
            () => false,
          ))
        );
        accepted.push(n)
      }
    }
    const done = publish()
    await until(() => observed.length > 50, { what: 'the first messages' })
    for (let round = 0; round < 2; round++) {
      const before = observed.length
      await server.restart(async () => {
        await until(() => !reader.connected() && !publisher.connected(), { what: 'both to detect the disconnect' })
      })
      await until(() => observed.length > before + 50, { what: 'messages after the restart' })
    }
    publishing.abort()
    await done
    await until(() => observed.length >= accepted.length, { what: 'everything accepted' })
    expect(observed.map(({ data }) => data)).toEqual(accepted)
    expect(new Set(observed.map(({ seq }) => seq)).size).toBe(observed.length)
    expect([reader.connected(), publisher.connected()]).toEqual([true, true])
  })

  test('subscriptions and servers on subjects that are not retained resume after a server restart', async () => {
    const [one, two] = [await connect(), await connect()]
    const observed: unknown[] = []
    await two.subscribe('plain.x', ({ data }) => void observed.push(data))
    await two.serve('rpc.x', () => 'answer')
    await server.restart(() =>
      until(() => !one.connected() && !two.connected(), { what: 'both to detect the disconnect' }),
    )
    await until(() => one.connected() && two.connected(), { what: 'both to be back' })
    const ask = () => one.request('rpc.x', 1, { timeoutMs: 1_000 })
    expect(await until(ask, { what: 'an answer' })).toBe('answer')
    await one.publish('plain.x', 'hello')
    await until(() => observed.includes('hello'), { what: 'the message' })
  })

  test('a reader starts over with the new stream after the server has lost its disk', async () => {
    const bus = await connect()
    for (let n = 0; n < 5; n++) await bus.publish('log.h.vm', n)
    const observed: Message[] = []
    await bus.subscribe('log.h.>', message => void observed.push(message), { from: 0 })
    await until(() => observed.length === 5, { what: 'five' })
    await server.restart(() => server.forget())
    const other = await until(() => connect(), { what: 'a connection that makes the streams' })
    await other.publish('log.h.vm', 'new')
    await until(() => observed.some(({ data }) => data === 'new'), { what: 'the new message' })
  })

  test('a ping fails while the server is down, and succeeds again afterwards', async () => {
    const bus = await connect()
    await bus.ping(5_000)
    await server.restart(async () => {
      await expect(bus.ping(5_000)).rejects.toBeInstanceOf(BusError)
    })
    await until(() => bus.ping(1_000).then(() => true), { what: 'an answer' })
  })

  test('the error for an unreachable server names its address but not the password', async () => {
    const error = await connectNatsBus({ servers: 'nats://u:secret@127.0.0.1:1', name: 'test', log }).catch(
      (caught: unknown) => caught,
    )
    expect(String(error)).toContain('cannot connect to NATS at nats://127.0.0.1:1')
    expect(String(error)).not.toContain('secret')
  })
})

suite(named('NATS permissions'), () => {
  const roles = [
    { kind: 'control' },
    { kind: 'host', id: 'aaa' },
    { kind: 'host', id: 'bbb' },
    { kind: 'gateway', id: 'g1' },
  ] as const satisfies readonly BusRole[]
  let control: Bus
  let host: Bus
  let other: Bus
  let gateway: Bus
  const as = (role: BusRole, options: Partial<NatsBusOptions> = {}) => {
    const { user } = permissionsFor(role)
    return connect({
      servers: server.url.replace('//', `//${user}:pw-${user}@`),
      manageStreams: role.kind === 'control',
      ...options,
    })
  }
  beforeEach(async () => {
    const users = roles.map(role => ({ role, password: `pw-${permissionsFor(role).user}` }))
    server = await startNatsServer({ config: natsAuthorization(users) })
    control = await as(roles[0])
    host = await as(roles[1])
    other = await as(roles[2])
    gateway = await as(roles[3])
  })
  afterEach(tearDown)

  test('control, hosts and gateways have the permissions that they need', async () => {
    await host.serve('host.aaa.in.vm.put', () => 'done')
    expect(await control.request('host.aaa.in.vm.put', {}, { timeoutMs: 2_000 })).toBe('done')
    await control.serve('control.in.wake', () => 'woken')
    expect(await gateway.request('control.in.wake', {}, { timeoutMs: 2_000 })).toBe('woken')
    const observed: unknown[] = []
    const note = ({ data }: Message) => void observed.push(data)
    await control.subscribe('host.*.out.beat', note)
    await control.subscribe('gateway.out.traffic', note)
    await gateway.subscribe('route.changed', note)
    await host.publish('host.aaa.out.beat', 'beat')
    await gateway.publish('gateway.out.traffic', 'traffic')
    await control.publish('route.changed', 'route')
    expect(await host.publish('log.aaa.p.a.d.v', 'line one')).toBe(1)
    await control.subscribe('log.*.p.a.>', note, { from: { last: 10 } })
    await control.subscribe('log.aaa.>', note, { from: 0 })
    await until(() => observed.length === 5, { what: 'five messages' })
    expect(observed.sort()).toEqual(['beat', 'line one', 'line one', 'route', 'traffic'])
  })

  const cannot = (name: string, act: () => Promise<unknown>, listenAt: string) =>
    test(`a host cannot ${name}`, async () => {
      const observed: unknown[] = []
      const note = ({ data }: Message) => void observed.push(data)
      await control.subscribe('host.*.out.>', note)
      await control.subscribe('log.>', note)
      await control.serve(listenAt, (data: unknown) => void observed.push(data)).catch(() => undefined)
      await act().catch(() => undefined)
      await host.publish('host.aaa.out.beat', 'honest')
      await until(() => observed.includes('honest'), { what: 'the honest message' })
      expect(observed).toEqual(['honest'])
    })
  cannot("publish another host's beats", () => host.publish('host.bbb.out.beat', 'forged'), 'control.in.nothing')
  cannot("publish another host's logs", () => host.publish('log.bbb.p.a.d.v', 'forged'), 'control.in.nothing')
  cannot(
    'ask control what only gateways ask',
    () => host.request('control.in.wake', 'forged', { timeoutMs: 300 }),
    'control.in.wake',
  )

  test("a host cannot request from, respond for or listen to another host, and no program can read another's inbox", async () => {
    const heard: unknown[] = []
    const steal = (bus: Bus, subject: string) =>
      bus.subscribe(subject, ({ data }) => void heard.push(data)).catch(() => undefined)
    await other.serve('host.bbb.in.ping', () => 'mine')
    await host.serve('host.bbb.in.ping', () => 'forged').catch(() => undefined)
    for (const subject of ['host.bbb.in.>', 'host.*.out.>', '_INBOX.>', '_INBOX_control.>', 'route.changed'])
      await steal(host, subject)
    await steal(gateway, 'host.*.in.>')
    await steal(control, '_INBOX_gateway-g1.>')
    const forged = await host.request('host.bbb.in.ping', 'forged', { timeoutMs: 300 }).catch((error: unknown) => error)
    expect(forged).toBeInstanceOf(BusError)
    for (let n = 0; n < 10; n++) expect(await control.request('host.bbb.in.ping', n, { timeoutMs: 2_000 })).toBe('mine')
    await control.publish('route.changed', 'secret')
    await other.publish('host.bbb.out.beat', 'secret')
    expect(await control.request('host.bbb.in.ping', 'last', { timeoutMs: 2_000 })).toBe('mine')
    expect(heard).toEqual([])
  })

  test('a wrong password is refused', async () => {
    await expect(as(roles[1], { password: 'wrong' })).rejects.toThrow(/cannot connect to NATS/)
  })

  test('a host id with dots or wildcards is refused', () => {
    for (const id of ['a.b', '*', '>', '', 'a b'])
      expect(() => permissionsFor({ kind: 'host', id })).toThrow(RangeError)
  })
})
