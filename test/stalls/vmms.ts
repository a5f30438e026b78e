/** The worst known inputs for parsers of the agent that read bytes from VMMs and from other hosts. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { listenForVm, parseArrival } from '../../src/agent/hypervisor/transfer/wire.ts'
import { vmmHttp } from '../../src/agent/hypervisor/vmm-http.ts'
import { lazily } from '../../src/lib/once.ts'
import { asked, pour, pourMs, settled, withVmm } from '../support/hostile-peers.ts'
import { deepJson, wideJson } from './inputs.ts'
import type { Case } from './measure.ts'

/** Returns a frame of the migration protocol with a JSON message. */
const message = (json: string) => {
  const header = Buffer.alloc(5)
  header[0] = 0x4a
  header.writeUInt32BE(json.length, 1)
  return Buffer.concat([header, Buffer.from(json)])
}

const firstMessages = lazily(() => [deepJson(4_000_000), wideJson(8_000_000)].map(message))

export const vmmsCases: readonly Case[] = [
  {
    name: 'the first message from an unknown sender at a migration port',
    files: ['src/agent/hypervisor/transfer/wire.ts'],
    async run() {
      for (const sent of firstMessages()) {
        const listener = await listenForVm('127.0.0.1', 'this host')
        listener.wire.catch(() => undefined)
        const socket = connect(parseArrival(listener.uri).port, '127.0.0.1')
        socket.on('error', () => undefined).resume()
        await once(socket, 'connect')
        socket.write(sent)
        // Wait until the listener has read the message, and so closes the connection.
        await settled(once(socket, 'close'))
        listener.close()
      }
    },
  },
  {
    name: 'the QMP messages of QEMU',
    files: ['src/agent/hypervisor/qemu/qmp.ts'],
    async run() {
      const floods = [
        `${deepJson(250_000)}\n`,
        `${wideJson(250_000)}\n`,
        'x'.repeat(1 << 20),
        '{}\n'.repeat(1 << 18),
        '{"event":"E"}\n'.repeat(1 << 16),
      ]
      for (const flood of floods)
        await withVmm(
          async (socket, text) => {
            const id = /"id":(\d+)/.exec(text)?.[1]
            if (text.includes('qmp_capabilities')) socket.write(`{"return":{},"id":${id}}\n`)
            else await pour(socket, Buffer.from(flood), 8).then(() => socket.destroy())
          },
          own => Promise.race([asked(own), sleep(2 * pourMs)]),
        )
    },
  },
  {
    name: 'the HTTP responses of a VMM',
    files: ['src/agent/hypervisor/vmm-http.ts'],
    async run() {
      const head = 'HTTP/1.1 200 OK\r\n'
      const [deep, wide] = [deepJson(130_000), wideJson(130_000)]
      for (const [first, then] of [
        [`${head}transfer-encoding: chunked\r\n\r\n`, `100000\r\n${'x'.repeat(1 << 20)}\r\n`],
        [`${head}transfer-encoding: chunked\r\n\r\n`, '1\r\nx\r\n'.repeat(1 << 17)],
        [`${head}content-length: ${deep.length}\r\n\r\n${deep}`, ''],
        [`${head}content-length: ${wide.length}\r\n\r\n${wide}`, ''],
        [head, 'x: y\r\n'.repeat(1 << 17)],
      ] as const)
        await withVmm(
          async socket => {
            await pour(socket, Buffer.from(first), 1)
            await pour(socket, Buffer.from(then), 8)
          },
          own => vmmHttp('a VMM', own, 'vmm.sock').call('GET', '/', undefined, { timeoutMs: 10_000 }),
        )
    },
  },
]
