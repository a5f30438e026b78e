/** The worst known inputs for parsers of the agent that read bytes from guests and their programs. */
import { open } from 'node:fs/promises'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { framed } from '../../src/agent/dns/forward.ts'
import { programsOf } from '../../src/agent/guest/programs.ts'
import { frameOf, makePipes, openStdio, pipePorts } from '../../src/agent/hypervisor/gvisor/pipes.ts'
import { maxFileBytes } from '../../src/control/apps/file-rules.ts'
import { run } from '../../src/lib/exec.ts'
import { programsPath } from '../../src/lib/vm-programs.ts'
import { pour, settled, withApp, withGuest, withResolver } from '../support/hostile-peers.ts'
import { place } from './inputs.ts'
import type { Case } from './measure.ts'

/** A DNS message with names that are compressed to pointers to each other, as deep as 64 KiB allow. */
const pointers = (() => {
  const message = Buffer.alloc(65_000)
  message.writeUInt16BE(3000, 4)
  for (let at = 14; at < 16_000; at += 2) message.writeUInt16BE(0xc000 + at - 2, at)
  for (let at = 16_000; at + 6 < message.length; at += 6) message.writeUInt16BE(0xc000 + 15_998, at)
  return message
})()

/** Writes the bytes to the agent through a named pipe, as a gVisor sandbox does; stops if the agent closes it. */
async function floodPipe(bytes: Buffer): Promise<void> {
  const dir = place()
  await run('mkdir', [dir])
  await makePipes(dir, run)
  const [input, ...others] = await openStdio(dir)
  const ports = pipePorts(dir)
  const opened = await Promise.all([ports.control(), ports.log()])
  for (const port of opened) port.on('error', () => undefined).on('data', () => undefined)
  // Close the other handles, so that the agent is the only reader and a write fails once the agent has closed the pipe.
  const output = await open(join(dir, 'out.pipe'), 'w')
  for (const handle of others) await handle.close()
  const hello = Buffer.alloc(3 + 16)
  await input.read(hello, 0, hello.length)
  const all = Buffer.concat([Buffer.from('\0sync '), hello.subarray(3), bytes])
  const write = async () => {
    for (let at = 0; at < all.length; at += 4096) await output.write(all.subarray(at, at + 4096))
  }
  await settled(write())
  await output.close()
  await input.close()
  for (const port of opened) port.destroy()
}

export const guestsCases: readonly Case[] = [
  {
    name: 'the file that lists further programs of a VM',
    files: ['src/agent/guest/programs.ts'],
    async run() {
      const program = { name: 'a', command: ['x'] }
      const most = {
        ...program,
        environment: Object.fromEntries(Array.from({ length: 30_000 }, (_, n) => [`V${n}`, 'x'])),
      }
      const floods = ['[', '{"programs":[', '"\\u0061', ' ', '{"a":'].map(one => one.repeat(maxFileBytes / one.length))
      const valid = [
        { programs: Array.from({ length: 20_000 }, () => program) },
        { programs: [most] },
        { programs: Array.from({ length: 16 }, () => program) },
      ]
      for (const text of [...floods, ...valid.map(one => JSON.stringify(one))])
        try {
          const file = { path: programsPath, data: Buffer.from(text).toString('base64'), mode: 0o644 }
          programsOf([file], { argv: { entrypoint: [], cmd: [] }, env: {} })
        } catch {
          // Ignore that the file is rejected: only the parser's speed matters.
        } finally {
          await turn()
        }
    },
  },
  {
    name: 'the control port of a guest',
    files: ['src/agent/guest/channel.ts', 'src/agent/guest/pace.ts', 'src/agent/guest/exec.ts', 'src/lib/lines.ts'],
    async run() {
      const floods = ['x', '\n', 'a\n', '* halted\n', 'a-1 o %41%41\n', '* exit 1\n']
      for (const text of floods)
        await withGuest(({ control }) => pour(control, Buffer.from(text.repeat((1 << 20) / text.length)), 8))
    },
  },
  {
    name: 'the log port of a guest',
    files: ['src/agent/guest/frames.ts', 'src/agent/logs/vm-log.ts'],
    async run() {
      const floods = [
        'L 1 1 1 0\n\n',
        'L 999999999999999 1 2 0\n\n',
        `L 2 1 1 8192\n${'x'.repeat(8192)}\n`,
        'L 1 1 1 999999999999\n',
        '\n',
      ]
      for (const text of floods)
        await withGuest(async ({ log, nonce }) => {
          await pour(log, Buffer.from(`\nH ${nonce} 1 1\n`), 1)
          await pour(log, Buffer.from(text.repeat(Math.ceil((1 << 20) / text.length))), 8)
        })
      await withGuest(({ log, nonce }) => pour(log, Buffer.from(`\nH ${nonce} ${'1'.repeat(1 << 20)}`), 8))
    },
  },
  {
    name: 'the pipe of a sandbox',
    files: ['src/agent/hypervisor/gvisor/pipes.ts'],
    async run() {
      const frames = [frameOf(0, Buffer.alloc(0)), frameOf(0, Buffer.from('x')), frameOf(1, Buffer.alloc(4093))]
      const floods = [...frames, Buffer.from([9, 9, 9])]
      for (const flood of floods)
        await floodPipe(Buffer.concat(Array.from({ length: (1 << 20) / flood.length }, () => flood)))
    },
  },
  {
    name: 'the response to a health check',
    files: ['src/agent/vm/health.ts'],
    async run() {
      for (const text of ['HTTP/1.1 103 Early Hints\r\n\r\n', 'x: y\r\n', 'x'])
        await withApp(async socket => {
          await pour(socket, Buffer.from(text.startsWith('HTTP') ? '' : 'HTTP/1.1 200 OK\r\n'), 1)
          await pour(socket, Buffer.from(text.repeat((1 << 20) / text.length)), 8)
        })
    },
  },
  {
    name: 'DNS queries of a guest',
    files: ['src/agent/dns/server.ts', 'src/agent/dns/forward.ts'],
    run: () =>
      withResolver(async port => {
        for (const data of [Buffer.alloc(1 << 20), framed(pointers), Buffer.alloc(1 << 16, 0xff)]) {
          const socket = connect(port, '127.0.0.1')
          socket.on('error', () => undefined).resume()
          await once(socket, 'connect')
          await pour(socket, data, 4)
          socket.destroy()
        }
        const udp = createSocket('udp4')
        for (let n = 0; n < 2000; n++) {
          udp.send(pointers.subarray(0, 1232), port, '127.0.0.1')
          if (n % 50 === 0) await turn()
        }
        await sleep(50)
        udp.close()
      }),
  },
  {
    name: 'the output of a program',
    files: ['src/lib/exec.ts'],
    run: () =>
      run('sh', ['-c', 'yes xxxxxxxxxxxxxxxx | head -c 30000000; yes | head -c 30000000 >&2'], {
        outputBytes: 2 << 20,
        timeoutMs: 20_000,
      }),
  },
]
