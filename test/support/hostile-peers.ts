/** Hostile peers of the agent: guests, VMMs, apps and DNS clients that send the worst known data. */
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startResolver } from '../../src/agent/dns/server.ts'
import { openGuest } from '../../src/agent/guest/channel.ts'
import { execInGuest } from '../../src/agent/guest/exec.ts'
import { testPorts } from './agent/guest.ts'
import { connectQmp } from '../../src/agent/hypervisor/qemu/qmp.ts'
import { vmLog } from '../../src/agent/logs/vm-log.ts'
import { httpProbe } from '../../src/agent/vm/health.ts'
import { until } from './wait.ts'

export const settled = (work: Promise<unknown>): Promise<void> =>
  work.then(
    () => undefined,
    () => undefined,
  )

const ownDir = async () => {
  const path = await mkdtemp(join(tmpdir(), 'mote-test-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

/**
 * Time limit for writing. A reader gets at most 64 KiB at once, so even a slow reader has then processed every input.
 */
export const pourMs = 300

/** Writes the data up to `times` times, while the socket is open, for at most `pourMs`. */
export async function pour(socket: Socket, data: Buffer, times: number): Promise<void> {
  const all = async () => {
    for (let n = 0; n < times && !socket.destroyed; n++)
      await new Promise<void>(resolve => socket.write(data, () => resolve()))
  }
  await Promise.race([all(), sleep(pourMs)])
}

export async function withGuest(
  use: (hello: { control: Socket; log: Socket; nonce: string }) => Promise<void>,
): Promise<void> {
  await using own = await ownDir()
  await using both = await testPorts()
  const log = vmLog({
    vmId: 'v',
    dir: own.path,
    onError: () => undefined,
    nowMs: () => Date.now(),
    publish: async () => undefined,
    limits: { maxBytes: 1 << 20, linesPerSecond: 1000, bytesPerSecond: 1 << 20 },
  })
  const guest = await openGuest(both.ports, 0, {
    onFrames: frames => log.frames(1, frames, () => undefined),
    onStarted: () => undefined,
    onExit: () => undefined,
    onBroken: () => undefined,
  })
  guest.ready.catch(() => undefined)
  settled(execInGuest(guest, ['yes'], 20_000))
  const ends = await Promise.all([both.end('control'), both.end('log')])
  const nonce = await until(() => /^from 0 (\w+)$/.exec(ends[1].lines()[1] ?? '')?.[1], {
    what: 'the host to send its nonce',
  })
  await use({ control: ends[0].socket, log: ends[1].socket, nonce })
  guest.close()
  await log.flush()
}

export const asked = async (own: string) => (await connectQmp(own, 'vmm.sock')).execute('query-status')

/** Calls `use` with the directory of a fake VMM's Unix socket, whose requests `answer` handles. */
export async function withVmm(
  answer: (socket: Socket, asked: string) => Promise<void> | void,
  use: (dir: string) => Promise<unknown>,
): Promise<void> {
  await using own = await ownDir()
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => undefined).on('data', data => void answer(socket, data.toString()))
  })
  server.listen(join(own.path, 'vmm.sock'))
  await once(server, 'listening')
  await settled(use(own.path))
  for (const socket of sockets) socket.destroy()
  server.close()
}

export async function withApp(say: (socket: Socket) => Promise<void>): Promise<void> {
  const server = createServer(socket => {
    socket.on('error', () => undefined).on('data', () => undefined)
    void say(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const to = { host: '127.0.0.1', port: typeof address === 'object' && address ? address.port : 0 }
  await httpProbe({ to, from: undefined }, '/')(AbortSignal.timeout(10_000))
  server.close()
}

export async function withResolver(use: (port: number) => Promise<void>): Promise<void> {
  const client = { names: new Map([['shop', ['fd00::1']]]), mayAskOthers: false }
  const options = { address: '127.0.0.1', port: 0, client: () => client, onError: () => undefined }
  const resolver = await startResolver({
    ...options,
    queriesPerSecond: 1_000_000,
    forward: () => Promise.reject(new Error('nobody')),
  })
  await use(resolver.port)
  await resolver.stop()
}
