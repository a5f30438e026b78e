import fc from 'fast-check'
import { expect, it } from 'vitest'
import { InputQueue } from './input-queue.ts'

it('the program gets each input byte once and in order, even if writes are concurrent and the guest accepts only parts of them', async () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 300_000 }), { minLength: 1, maxLength: 12 })
  const shares = fc.array(fc.double({ min: 0.1, max: 1, noNaN: true }), { minLength: 1, maxLength: 5 })
  // Numbers of bytes that a previous connection of the same client still writes at the same time.
  const earlier = fc.array(fc.integer({ min: 0, max: 900_000 }), { minLength: 1, maxLength: 4 })
  await fc.assert(
    fc.asyncProperty(sizes, shares, fc.integer({ min: 1, max: 3 }), earlier, async (parts, taken, most, more) => {
      const whole = Buffer.concat(parts.map((size, n) => Buffer.alloc(size, n + 1)))
      const received: Buffer[] = []
      let total = 7
      let running = 0
      let writes = 0
      const closed = Promise.withResolvers<number>()
      // Simulates a guest: refuses data if earlier data is missing, may accept only a part, and responds with the
      // position of all input so far, which includes writes of the client's previous connection.
      const write = async (offset: number, data: readonly Uint8Array[] | undefined, isAhead: boolean) => {
        if (!data) {
          closed.resolve(total)
          return total
        }
        expect(++running <= most).toBe(true)
        await Promise.resolve()
        const all = Buffer.concat(data)
        const share = taken[writes++ % taken.length] ?? 1
        if (offset > total) expect(isAhead).toBe(true)
        else {
          const fresh = all.subarray(total - offset, Math.ceil(share * all.length))
          received.push(fresh)
          total += fresh.length
          const others = whole.subarray(total - 7, total - 7 + (more[writes % more.length] ?? 0))
          received.push(others)
          total += others.length
        }
        await Promise.resolve()
        running--
        return offset > total ? offset : total
      }
      const queue = new InputQueue({ position: 7, write, most: () => most })
      const sent = parts.map((size, n) => Buffer.alloc(size, n + 1))
      let position = 7
      for (const data of sent) {
        while (queue.push(position, data) !== undefined) await new Promise(setImmediate)
        position += data.length
      }
      queue.close()
      expect(await closed.promise).toBe(position)
      expect(Buffer.concat(received).equals(whole)).toBe(true)
    }),
    { numRuns: 60 },
  )
})

it('the queue starts no further write after a write has failed', async () => {
  let writes = 0
  const write = async () => {
    writes++
    throw new Error('no')
  }
  const queue = new InputQueue({ position: 0, write, most: () => 3 })
  queue.push(0, Buffer.from('abc'))
  await new Promise(setImmediate)
  queue.push(3, Buffer.from('def'))
  queue.close()
  await new Promise(setImmediate)
  expect(writes).toBe(1)
})
