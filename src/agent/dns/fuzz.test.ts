/**
 * Sends queries to the resolver, from random bytes to almost valid ones. The resolver must answer or ignore each of
 * them, and must not report an error.
 */
import packet from 'dns-packet'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { answerPrivate, encodeUdp, response } from './answer.ts'
import { decoded } from './server.ts'

const names = new Map([
  ['shop', ['fd00::1', 'fd00::2']],
  ['db', []],
])

function handle(message: Buffer): void {
  const query = decoded(message)
  if (!query) return
  const answer = answerPrivate(query, names)
  expect(encodeUdp(query, answer ?? response(query, 'REFUSED')).length).toBeLessThan(65_536)
}

const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map(data => Buffer.from(data))
const label = fc.uint8Array({ minLength: 1, maxLength: 63 }).map(data => Buffer.from([data.length, ...data]))

it('random bytes cause no error in the resolver', () => fc.assert(fc.property(bytes(1300), handle), { numRuns: 300 }))

it('a question with random labels, type and options causes no error in the resolver', () => {
  const query = fc.tuple(fc.array(label, { maxLength: 5 }), fc.nat({ max: 0xffff }), fc.nat({ max: 0xffff }), bytes(60))
  fc.assert(
    fc.property(query, fc.constantFrom(0, 1, 2), ([labels, type, flags, rest], additionals) => {
      const head = Buffer.alloc(12)
      head.writeUInt16BE(flags & 0x7fff, 2)
      head.writeUInt16BE(1, 4)
      head.writeUInt16BE(additionals, 10)
      const tail = Buffer.alloc(4)
      tail.writeUInt16BE(type, 0)
      tail.writeUInt16BE(1, 2)
      for (const zone of [Buffer.from([0]), Buffer.from('\x08internal\0', 'latin1')])
        handle(Buffer.concat([head, ...labels, zone, tail, rest]))
    }),
    { numRuns: 500 },
  )
})

it('a valid query with some changed bytes causes no error in the resolver', () => {
  const additionals = [{ type: 'OPT', name: '.', udpPayloadSize: 4096 }] as never[]
  const right = packet.encode({
    type: 'query',
    id: 1,
    questions: [{ type: 'AAAA', name: 'shop.internal' }],
    additionals,
  })
  const changes = fc.array(fc.tuple(fc.nat({ max: right.length - 1 }), fc.integer({ min: 0, max: 255 })), {
    maxLength: 4,
  })
  fc.assert(
    fc.property(changes, list => {
      const message = Buffer.from(right)
      for (const [at, byte] of list) message.writeUInt8(byte, at)
      handle(message)
    }),
    { numRuns: 1000 },
  )
})
