import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { natsMissing, startNatsServer } from '../../test/support/nats.ts'
import { promisedMs, until } from '../../test/support/wait.ts'
import { type Bus, BusError, type Message } from './bus.ts'
import { createMemoryBus } from './memory.ts'
import { connectNatsBus } from './nats.ts'
import { streams } from './streams.ts'

const log = pino({ level: 'silent' })

/** A bus implementation to test. Every implementation must pass all tests of this file. */
interface Kind {
  readonly name: string
  setUp(): Promise<{ open(): Promise<Bus>; tearDown(): Promise<void> }>
}

const memory: Kind = {
  name: 'memory',
  async setUp() {
    // Without a server, all programs share one bus in memory.
    let shared: Bus | undefined
    return {
      open: async () => (shared?.connected() ? shared : (shared = createMemoryBus({ log }))),
      tearDown: async () => undefined,
    }
  },
}

const nats: Kind = {
  name: 'NATS',
  async setUp() {
    const server = await startNatsServer()
    return {
      open: () => connectNatsBus({ servers: server.url, name: 'test', log }),
      tearDown: () => server.stop(),
    }
  },
}

/** Returns a new subject for each test, because all tests share a server. */
const fresh = (prefix: string) => `${prefix}.${randomBytes(6).toString('hex')}`

function collector() {
  const messages: Message[] = []
  return {
    messages,
    handler: (message: Message) => void messages.push(message),
    data: () => messages.map(({ data }) => data),
    atLeast: (count: number) => until(() => messages.length >= count, { what: `${count} messages` }),
  }
}

const failure = async (promise: Promise<unknown>) => {
  const error = await promise.then(
    () => undefined,
    (caught: unknown) => caught,
  )
  expect(error).toBeInstanceOf(BusError)
  return error as BusError
}

for (const kind of [memory, nats]) {
  const missing = kind === nats ? natsMissing : undefined
  const suite = missing === undefined ? describe : describe.skip
  suite(`bus on ${kind.name}${missing === undefined ? '' : `: skipped, ${missing}`}`, () => {
    let setUp: Awaited<ReturnType<Kind['setUp']>>
    let bus: Bus
    let other: Bus
    beforeAll(async () => {
      setUp = await kind.setUp()
    })
    afterAll(() => setUp?.tearDown())
    beforeEach(async () => {
      bus = await setUp.open()
      other = await setUp.open()
    })
    afterEach(async () => {
      await Promise.all([bus.close(), other.close()])
    })

    describe('publish and subscribe', () => {
      test('a subscriber gets later messages in order, asynchronously', async () => {
        const subject = fresh('plain')
        const observed = collector()
        await bus.publish(subject, 'before')
        await bus.subscribe(subject, observed.handler)
        for (let n = 0; n < 500; n++) void bus.publish(subject, n)
        expect(observed.messages).toEqual([])
        await observed.atLeast(500)
        expect(observed.data()).toEqual(Array.from({ length: 500 }, (_, n) => n))
        expect(observed.messages.every(({ seq }) => seq === 0)).toBe(true)
        expect(Math.abs((observed.messages[0]?.atMs ?? 0) - Date.now())).toBeLessThan(5_000)
      })

      test('each subscriber gets a copy of the data after a JSON round trip', async () => {
        const subject = fresh('plain')
        const observed = collector()
        await bus.subscribe(subject, observed.handler)
        await bus.subscribe(subject, observed.handler)
        const sent = { at: new Date(0), nested: { list: [1, undefined] }, gone: undefined }
        await bus.publish(subject, sent)
        await bus.publish(subject, undefined)
        sent.nested.list.push(2)
        await observed.atLeast(4)
        expect(observed.data()).toEqual(
          expect.arrayContaining([{ at: '1970-01-01T00:00:00.000Z', nested: { list: [1, null] } }, null]),
        )
        expect(observed.messages[0]?.data).not.toBe(observed.messages[1]?.data)
      })

      test.each([
        ['a.b', 'a.b', true],
        ['a.b', 'a.b.c', false],
        ['a.*', 'a.b', true],
        ['a.*', 'a', false],
        ['a.*', 'a.b.c', false],
        ['a.*.c', 'a.b.c', true],
        ['a.>', 'a.b.c', true],
        ['a.>', 'a', false],
        ['*.b', 'a.b', true],
      ])('whether pattern %s matches subject %s: %s', async (pattern, subject, matches) => {
        const prefix = fresh('plain')
        const observed = collector()
        await bus.subscribe(`${prefix}.${pattern}`, observed.handler)
        await bus.subscribe(`${prefix}.end`, observed.handler)
        await other.publish(`${prefix}.${subject}`, 1)
        await other.publish(`${prefix}.end`, 'end')
        await until(() => observed.data().includes('end'), { what: 'the last message' })
        expect(observed.messages.length).toBe(matches ? 2 : 1)
      })

      test('each message reaches one member of a group, and every subscriber without a group', async () => {
        const subject = fresh('plain')
        const [one, two, outside] = [collector(), collector(), collector()]
        await bus.subscribe(subject, one.handler, { group: 'g' })
        await other.subscribe(subject, two.handler, { group: 'g' })
        await other.subscribe(subject, outside.handler)
        for (let n = 0; n < 100; n++) await bus.publish(subject, n)
        await outside.atLeast(100)
        await until(() => one.messages.length + two.messages.length === 100, { what: 'the group' })
        expect([...one.data(), ...two.data()].sort((a, b) => Number(a) - Number(b))).toEqual(outside.data())
        expect(one.messages.length).toBeGreaterThan(10)
        expect(two.messages.length).toBeGreaterThan(10)
      })

      test('messages are delivered one at a time, even after a handler failed', async () => {
        const subject = fresh('plain')
        let running = 0
        let most = 0
        let calls = 0
        await bus.subscribe(subject, async () => {
          most = Math.max(most, ++running)
          await new Promise(resolve => setImmediate(resolve))
          running--
          if (++calls < 3) throw new Error('handler')
        })
        for (let n = 0; n < 10; n++) await bus.publish(subject, n)
        await until(() => calls === 10, { what: 'ten calls' })
        expect(most).toBe(1)
      })

      test.each(['stop', 'signal'] as const)('no handler is called after the subscription ended by %s', async how => {
        const subject = fresh('plain')
        const [ended, lasting] = [collector(), collector()]
        const abort = new AbortController()
        const subscription = await bus.subscribe(subject, ended.handler, { signal: abort.signal })
        await bus.subscribe(subject, lasting.handler)
        await bus.publish(subject, 1)
        await Promise.all([ended.atLeast(1), lasting.atLeast(1)])
        if (how === 'stop') await subscription.stop()
        else abort.abort()
        await bus.publish(subject, 2)
        await lasting.atLeast(2)
        await subscription.stop()
        expect(ended.data()).toEqual([1])
      })

      test.each(['', 'a..b', 'a b', '.a', 'a.*', 'a.>', 'é'])('publishing to %j is refused', async subject => {
        await expect(bus.publish(subject, 1)).rejects.toThrow(RangeError)
      })

      test('`from` is refused on subjects that are not retained, and `group` on retained ones', async () => {
        const handler = () => undefined
        await expect(bus.subscribe(fresh('plain'), handler, { from: 0 })).rejects.toThrow(/only be read from "new"/)
        await expect(bus.subscribe(fresh('log'), handler, { group: 'g' })).rejects.toThrow(/groups cannot share/)
        await expect(bus.subscribe('>', handler)).rejects.toThrow(/only in part|partly retained/)
        await expect(bus.subscribe('a.>.b', handler)).rejects.toThrow(RangeError)
      })
    })

    describe('retained subjects', () => {
      test('sequences increase strictly, and a reader from 0 gets all retained messages and then new ones', async () => {
        const subject = fresh('log')
        const seqs: number[] = []
        for (let n = 0; n < 5; n++) seqs.push(await bus.publish(subject, n))
        expect(seqs.every((seq, index) => seq > (seqs[index - 1] ?? 0))).toBe(true)
        const observed = collector()
        await other.subscribe(subject, observed.handler, { from: 0 })
        for (let n = 5; n < 10; n++) seqs.push(await bus.publish(subject, n))
        await observed.atLeast(10)
        expect(observed.data()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        expect(observed.messages.map(({ seq }) => seq)).toEqual(seqs)
      })

      test('a reader that starts after a sequence gets all newer messages without gaps during concurrent publishes', async () => {
        const subject = fresh('log')
        const first = await bus.publish(subject, 0)
        const publishing = (async () => {
          for (let n = 1; n <= 300; n++) await bus.publish(subject, n)
        })()
        const observed = collector()
        await other.subscribe(subject, observed.handler, { from: first })
        await publishing
        await observed.atLeast(300)
        expect(observed.data()).toEqual(Array.from({ length: 300 }, (_, n) => n + 1))
      })

      test.each([0, 1, 3, 50])('`{ last: %i }` gets that many old messages, then live ones', async last => {
        const prefix = fresh('log')
        for (let n = 0; n < 20; n++) {
          await bus.publish(`${prefix}.${n % 2}`, n)
          await bus.publish(fresh('log.noise'), n)
        }
        const observed = collector()
        await other.subscribe(`${prefix}.*`, observed.handler, { from: { last } })
        await bus.publish(`${prefix}.0`, 20)
        await until(() => observed.data().includes(20), { what: 'the live message' })
        const all = Array.from({ length: 21 }, (_, n) => n)
        expect(observed.data()).toEqual(all.slice(Math.max(0, 20 - last)))
      })

      test('a reader from `new` gets no earlier messages', async () => {
        const subject = fresh('log')
        await bus.publish(subject, 'old')
        const observed = collector()
        await other.subscribe(subject, observed.handler)
        await bus.publish(subject, 'new')
        await observed.atLeast(1)
        expect(observed.data()).toEqual(['new'])
      })

      test('a second publish with the same id is dropped and returns the first sequence', async () => {
        const subject = fresh('log')
        const id = fresh('id')
        const observed = collector()
        await other.subscribe(subject, observed.handler, { from: 0 })
        const first = await bus.publish(subject, 1, { id })
        expect(await other.publish(subject, 2, { id })).toBe(first)
        await bus.publish(subject, 3)
        await observed.atLeast(2)
        expect(observed.data()).toEqual([1, 3])
      })

      test('retention keeps the newest messages of each subject, and a late reader is notified of the gap', async () => {
        const subject = fresh('log')
        const { maxPerSubject } = streams[0]
        const seqs: number[] = []
        for (let sent = 0; sent < maxPerSubject + 3; sent += 500) {
          const batch = Array.from({ length: Math.min(500, maxPerSubject + 3 - sent) }, (_, n) =>
            bus.publish(subject, sent + n),
          )
          seqs.push(...(await Promise.all(batch)))
        }
        const gaps: unknown[] = []
        const observed = collector()
        const onGap = (gap: unknown) => void gaps.push(gap, observed.messages.length)
        await other.subscribe(subject, observed.handler, { from: seqs[0] ?? 0, onGap })
        await until(() => observed.messages.length === maxPerSubject, {
          what: 'the retained messages',
        })
        expect(gaps).toEqual([{ after: seqs[0], firstKept: seqs[3] }, 0])
        expect(observed.messages[0]?.data).toBe(3)
        const none: unknown[] = []
        await other.subscribe(subject, () => undefined, { from: seqs[2] ?? 0, onGap: gap => none.push(gap) })
        expect(none).toEqual([])
      })

      test('a reader whose sequence is from before the stream was recreated gets all messages, with a gap', async () => {
        const subject = fresh('log')
        const seq = await bus.publish(subject, 'a')
        const gaps: unknown[] = []
        const observed = collector()
        await other.subscribe(subject, observed.handler, { from: seq + 1_000, onGap: gap => gaps.push(gap) })
        await observed.atLeast(1)
        expect(gaps).toEqual([{ after: seq + 1_000, firstKept: seq }])
      })

      test('a slow reader loses no retained message', async () => {
        const subject = fresh('log')
        const data: unknown[] = []
        const gate = Promise.withResolvers<void>()
        await other.subscribe(subject, async message => {
          await gate.promise
          data.push(message.data)
        })
        await Promise.all(Array.from({ length: 1_000 }, (_, n) => bus.publish(subject, n)))
        gate.resolve()
        await until(() => data.length === 1_000, { what: 'all messages' })
        expect(new Set(data).size).toBe(1_000)
      })
    })

    describe('request and serve', () => {
      test('request data and response are transferred as JSON, and the handler gets the subject', async () => {
        const subject = fresh('rpc')
        await other.serve(`${subject}.*`, (data, asked) => ({ data, asked, when: new Date(0) }))
        await other.serve(`${subject}.void.*`, () => undefined)
        expect(await bus.request(`${subject}.put`, { a: 1 }, { timeoutMs: 2_000 })).toEqual({
          data: { a: 1 },
          asked: `${subject}.put`,
          when: '1970-01-01T00:00:00.000Z',
        })
        expect(await bus.request(`${subject}.void.x`, undefined, { timeoutMs: 2_000 })).toBeNull()
      })

      test('an error of the handler reaches the caller with its message and code', async () => {
        const subject = fresh('rpc')
        await other.serve(subject, () => {
          throw Object.assign(new Error('too old'), { code: 'stale_generation' })
        })
        const error = await failure(bus.request(subject, 1, { timeoutMs: 2_000 }))
        expect([error.code, error.message, error.remoteCode]).toEqual(['remote', 'too old', 'stale_generation'])
      })

      test('a request without a server fails with no_responder at once', async () => {
        const started = performance.now()
        expect((await failure(bus.request(fresh('rpc'), 1, { timeoutMs: 10_000 }))).code).toBe('no_responder')
        expect(performance.now() - started).toBeLessThan(promisedMs(2_000))
      })

      test('a stopped server gets no more requests', async () => {
        const subject = fresh('rpc')
        const served = await other.serve(subject, () => 1)
        await bus.request(subject, 1, { timeoutMs: 2_000 })
        await served.stop()
        await until(
          async () => (await failure(bus.request(subject, 1, { timeoutMs: 2_000 }))).code === 'no_responder',
          { what: 'no_responder' },
        )
      })

      test('a request fails with `timeout`, `aborted` or `closed`', async () => {
        const subject = fresh('rpc')
        await other.serve(subject, () => new Promise(() => undefined))
        expect((await failure(bus.request(subject, 1, { timeoutMs: 50 }))).code).toBe('timeout')
        const abort = new AbortController()
        const given = failure(bus.request(subject, 1, { timeoutMs: 5_000, signal: abort.signal }))
        abort.abort()
        expect((await given).code).toBe('aborted')
        expect((await failure(bus.request(subject, 1, { timeoutMs: 5_000, signal: AbortSignal.abort() }))).code).toBe(
          'aborted',
        )
        const open = failure(bus.request(subject, 1, { timeoutMs: 5_000 }))
        await bus.close()
        expect((await open).code).toBe('closed')
      })

      test('bytes and JSON can be sent as request data to the same handler', async () => {
        const subject = fresh('rpc')
        await other.serve(subject, data => (data instanceof Uint8Array ? { bytes: data.length } : { json: data }))
        const bytes = Uint8Array.from({ length: 600_000 }, (_, n) => n % 251)
        expect(await bus.request(subject, bytes, { timeoutMs: 5_000 })).toEqual({ bytes: bytes.length })
        expect(await bus.request(subject, new Uint8Array(), { timeoutMs: 5_000 })).toEqual({ bytes: 0 })
        expect(await bus.request(subject, { a: 1 }, { timeoutMs: 5_000 })).toEqual({ json: { a: 1 } })
      })

      test('bytes can be returned as a response', async () => {
        const subject = fresh('rpc')
        const bytes = Uint8Array.from({ length: 700_000 }, (_, n) => n % 251)
        await other.serve(subject, () => bytes)
        const answer = await bus.request(subject, 1, { timeoutMs: 2_000 })
        expect(answer).toBeInstanceOf(Uint8Array)
        expect(Buffer.from(answer as Uint8Array).equals(bytes)).toBe(true)
        await other.serve(`${subject}.none`, () => new Uint8Array())
        expect(await bus.request(`${subject}.none`, 1, { timeoutMs: 2_000 })).toHaveLength(0)
      })

      test('each request reaches one server of a group, and requests run concurrently', async () => {
        const subject = fresh('rpc')
        const counts = { one: 0, two: 0 }
        const gate = Promise.withResolvers<void>()
        const server = (name: keyof typeof counts) => async () => {
          counts[name]++
          if (counts.one + counts.two === 40) gate.resolve()
          await gate.promise
          return name
        }
        await bus.serve(subject, server('one'), { group: 'g' })
        await other.serve(subject, server('two'), { group: 'g' })
        const asked = Array.from({ length: 40 }, () => bus.request(subject, 1, { timeoutMs: 5_000 }))
        expect((await Promise.all(asked)).length).toBe(40)
        expect(counts.one + counts.two).toBe(40)
        expect(Math.min(counts.one, counts.two)).toBeGreaterThan(4)
      })

      test('a subscription does not receive requests', async () => {
        const prefix = fresh('rpc')
        const observed = collector()
        await bus.subscribe(`${prefix}.*`, observed.handler)
        await other.serve(`${prefix}.ask`, () => 1)
        await bus.request(`${prefix}.ask`, 1, { timeoutMs: 2_000 })
        await bus.publish(`${prefix}.tell`, 'told')
        await observed.atLeast(1)
        expect(observed.data()).toEqual(['told'])
      })
    })

    test('after `close` all calls are refused, and `close` is idempotent', async () => {
      const observed = collector()
      const subject = fresh('plain')
      await bus.subscribe(subject, observed.handler)
      await bus.ping(5_000)
      expect(bus.connected()).toBe(true)
      await bus.close()
      await bus.close()
      expect(bus.connected()).toBe(false)
      await expect(bus.ping(5_000)).rejects.toMatchObject({ code: 'closed' })
      for (const call of [
        bus.publish(subject, 1),
        bus.subscribe(subject, observed.handler),
        bus.serve(subject, () => 1),
      ]) {
        expect((await failure(call)).code).toBe('closed')
      }
      expect((await failure(bus.request(subject, 1, { timeoutMs: 100 }))).code).toBe('closed')
    })
  })
}
