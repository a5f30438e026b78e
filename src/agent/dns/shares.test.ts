/** If a guest exceeds its share of the resolver, other guests still get responses. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import packet from 'dns-packet'
import { expect, it } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { rcodes } from './answer.ts'
import { startResolver } from './server.ts'
import { rates, shares } from './shares.ts'

const [loud, quiet] = ['127.0.0.1', '127.0.0.2']
const query = packet.encode({ type: 'query', id: 7, questions: [{ type: 'A', name: 'www.example' }] })

it('each guest has a limit on pending operations, and a lower one while all guests together have many', () => {
  const { take } = shares({ each: 3, busy: 4, eachWhenBusy: 1 })
  const first = [take('a'), take('a'), take('a')]
  expect([first.every(Boolean), take('a')]).toEqual([true, undefined])
  expect([take('b') !== undefined, take('b'), take('c') !== undefined, take('c')]).toEqual([
    true,
    undefined,
    true,
    undefined,
  ])
  for (const release of first) release?.()
  expect([take('a') !== undefined, take('b') !== undefined]).toEqual([true, true])
})

it("a rate limit allows each guest a burst of two seconds' worth", () => {
  let nowMs = 0
  const { take } = rates(10, () => nowMs)
  const taken = (who: string) => Array.from({ length: 100 }, () => take(who)).filter(Boolean).length
  expect([taken('a'), taken('a'), taken('b')]).toEqual([20, 0, 20])
  nowMs = 500
  expect([taken('a'), taken('b')]).toEqual([5, 5])
  nowMs = 60_000
  expect([taken('a'), taken('b'), taken('c')]).toEqual([20, 20, 20])
})

async function opened(queriesPerSecond: number) {
  const refused: string[] = []
  const asked: string[] = []
  const resolver = await startResolver({
    address: '0.0.0.0',
    port: 0,
    client: () => ({ names: new Map(), mayAskOthers: true }),
    forward: () => new Promise(() => void asked.push('query')),
    queriesPerSecond,
    onRefused: address => void refused.push(address),
    onError: error => expect.unreachable(String(error)),
  })
  const send = async (from: string, times: number) => {
    const socket = createSocket('udp4')
    socket.bind(0, from)
    await once(socket, 'listening')
    const answers: packet.DecodedPacket[] = []
    socket.on('message', message => answers.push(packet.decode(message)))
    for (let n = 0; n < times; n++) socket.send(query, resolver.port, '127.0.0.1')
    return { answers, close: () => socket.close() }
  }
  return { resolver, refused, asked, send }
}

it("queries above one guest's rate limit are dropped, and queries of other guests get responses", async () => {
  const { resolver, refused, asked, send } = await opened(5)
  const one = await send(loud, 40)
  await until(() => refused.length >= 25, { what: 'queries refused' })
  const before = asked.length
  expect(before).toBeLessThanOrEqual(15)
  const other = await send(quiet, 1)
  await until(() => asked.length > before, { what: "the neighbor's query forwarded" })
  expect([one.answers, refused.includes(quiet)]).toEqual([[], false])
  one.close()
  other.close()
  await resolver.stop()
})

it('one guest has at most 64 forwarded queries pending', async () => {
  const { resolver, asked, send } = await opened(1_000)
  const one = await send(loud, 100)
  await until(() => one.answers.length > 0, { what: 'the first refusal' })
  const other = await send(quiet, 1)
  await until(() => asked.length === 65, { what: "the neighbor's query forwarded" })
  expect(one.answers.every(answer => ((answer.flags ?? 0) & 15) === rcodes.REFUSED)).toBe(true)
  one.close()
  other.close()
  await resolver.stop()
})

it('one guest has at most 16 TCP connections open', async () => {
  const { resolver, refused } = await opened(1_000)
  const open = (from: string) =>
    connect({ port: resolver.port, host: '127.0.0.1', localAddress: from }).on('error', () => undefined)
  const sockets = Array.from({ length: 17 }, () => open(loud))
  await Promise.any(sockets.map(socket => once(socket, 'close')))
  expect(refused).toEqual([loud])
  const neighbor = open(quiet)
  await once(neighbor, 'connect')
  expect([sockets.filter(socket => !socket.closed).length, neighbor.closed]).toEqual([16, false])
  for (const socket of [...sockets, neighbor]) socket.destroy()
  await resolver.stop()
})
