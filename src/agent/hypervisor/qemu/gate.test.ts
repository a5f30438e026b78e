import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.ts'
import { copyTimeout, createGate } from './gate.ts'

const mib = 2 ** 20

it.each([
  [0, 0],
  [256 * mib, 0],
  [256 * mib + 4096, 64 * 1024],
  [512 * mib, 65_536 * 9],
  [65_536 * mib, 4 * mib],
])('with %i bytes of memory left to send, the gate lets %i bytes pass before its next check', (left, bytes) =>
  expect(copyTimeout(left)).toBe(bytes),
)

/** Opens a connection and returns both ends. */
async function pair(cleanup: DisposableStack): Promise<readonly [Socket, Socket]> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [accepted]: Socket[] = await once(server, 'connection')
  if (!accepted) throw new Error('BUG: no connection')
  for (const one of [client, accepted]) cleanup.defer(() => one.destroy())
  server.close()
  return [client, accepted]
}

it("the gate forwards QEMU's output until little memory is left, then stops reading, and loses no byte", async () => {
  using cleanup = new DisposableStack()
  const [[writes, qemu], [outside, reads]] = [await pair(cleanup), await pair(cleanup)]
  const total = 2 * mib
  let heard = 0
  let left = 1024 * mib
  reads.on('data', (chunk: Buffer) => {
    heard += chunk.length
    if (heard > mib) left = 0
  })
  const gate = createGate(async () => left)
  const passed = gate.pass(qemu, outside)
  writes.end(Buffer.alloc(total))
  left = 300 * mib
  await until(() => heard > 0, { what: 'something has come' })
  await until(() => gate.closed(), { what: 'the gate is closed' })
  gate.release()
  await passed
  qemu.pipe(outside)
  await once(reads, 'end')
  expect(heard).toBe(total)
})

it('the gate closes when QEMU closes its output', async () => {
  using cleanup = new DisposableStack()
  const [[writes, qemu], [outside, reads]] = [await pair(cleanup), await pair(cleanup)]
  reads.resume()
  const gate = createGate(async () => undefined)
  const passed = gate.pass(qemu, outside)
  writes.end('not much')
  await until(() => gate.closed(), { what: 'the gate is closed' })
  gate.release()
  await passed
})
