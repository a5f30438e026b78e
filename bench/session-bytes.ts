/** Measures the throughput of VM sessions through the CLI, compared with a bare TCP connection to the same guest. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { open, readFile } from 'node:fs/promises'
import { connect, type TcpNetConnectOpts } from 'node:net'
import { join } from 'node:path'
import { nativeProgram } from '../src/agent/guest/native.ts'
import { writeSampleImage } from '../src/agent/image/sample.ts'
import { until } from '../test/support/wait.ts'
import type { Benchmark, Report } from './benchmark.ts'
import { type BenchCloud, startBenchCloud, untilAnswer } from './cloud.ts'
import { missingForVms } from './deploy-to-answer.ts'
import { bareEchoes, sessionEchoes } from './echoes.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 3
/** Size of the file in the guest, which is sent several times. */
const fileMib = 64
const port = 5001
const file = '/tmp/data'
const chunkBytes = 1 << 17
const bytesPerMib = 2 ** 20

type Hypervisor = 'qemu' | 'gvisor'

interface Guest {
  readonly cloud: BenchCloud
  readonly address: string
  readonly jobId: string
  readonly token: string
  /** Address of a Node.js process that forwards connections to the guest. */
  readonly relay: TcpNetConnectOpts
  /** How often the file is sent. */
  readonly times: number
  readonly env: NodeJS.ProcessEnv
}

/** Runs the CLI; resolves with its duration in seconds. */
async function cli(guest: Guest, args: readonly string[], input = '/dev/null'): Promise<number> {
  const began = performance.now()
  await using stdin = await open(input, 'r')
  await using stdout = await open('/dev/null', 'w')
  const child = spawn(process.execPath, ['src/cli/main.ts', ...args], {
    env: guest.env,
    stdio: [stdin.fd, stdout.fd, 'pipe'],
  })
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (said += text))
  await once(child, 'close')
  if (child.exitCode !== 0) throw new Error(`mote ${args.join(' ')} ended with ${child.exitCode}: ${said}`)
  return (performance.now() - began) / 1000
}

/**
 * Returns the host's address for health checks. The firewall lets connections from this address reach every port of a
 * guest (net/addresses.ts).
 */
function probeOf(address: string): string {
  const [a, b, c = 0] = address.split('.').map(Number)
  return `${a}.${b}.${c | 15}.254`
}

const toGuest = (address: string) => ({ port, host: address, localAddress: probeOf(address), allowHalfOpen: true })

async function isListening(address: string): Promise<boolean> {
  const socket = connect(toGuest(address))
  try {
    return await Promise.race([
      once(socket, 'connect').then(() => true),
      new Promise<false>(resolve => socket.setTimeout(1000, () => resolve(false))),
    ]).catch(() => false)
  } finally {
    socket.destroy()
  }
}

/** Returns the MiB per second from the guest over the bare connection. */
async function bareOut({ times }: Guest, to: TcpNetConnectOpts): Promise<number> {
  const began = performance.now()
  const socket = connect(to)
  socket.write(Buffer.from([times]))
  let bytes = 0
  for await (const part of socket) bytes += (part as Buffer).length
  if (bytes !== times * fileMib * bytesPerMib) throw new Error(`${bytes} bytes arrived`)
  return (times * fileMib * 1000) / (performance.now() - began)
}

/** Returns the MiB per second to the guest over the bare connection, until the guest has counted the last byte. */
async function bareIn({ times }: Guest, to: TcpNetConnectOpts): Promise<number> {
  const began = performance.now()
  const socket = connect(to)
  socket.write(Buffer.from([0]))
  const chunk = Buffer.alloc(chunkBytes, 'x')
  const bytes = times * fileMib * bytesPerMib
  for (let at = 0; at < bytes; at += chunkBytes) if (!socket.write(chunk)) await once(socket, 'drain')
  socket.end()
  let counted = ''
  for await (const part of socket) counted += String(part)
  if (Number(counted) !== bytes) throw new Error(`the guest has received ${counted} bytes`)
  return (times * fileMib * 1000) / (performance.now() - began)
}

async function prepare(cleanup: AsyncDisposableStack, hypervisor: Hypervisor, times: number): Promise<Guest> {
  const cloud = cleanup.use(await startBenchCloud(hypervisor))
  const program = await readFile(await nativeProgram(join(cloud.dir, 'cache'), new URL('stream.c', import.meta.url)))
  await writeSampleImage(join(cloud.dir, 'images', 'bytes'), { user: 'root', programs: { stream: program } })
  const app = { name: 'bytes', git_url: '', health_check_path: '/health' }
  const { hostname } = await cloud.client.createApp({ body: app })
  const { job_id } = await cloud.client.deployApp({
    app_name: 'bytes',
    body: { image: 'oci:bytes', memory_mib: 512 },
  })
  await untilAnswer(cloud, hostname ?? '', () => true, '/health')
  const exec = async (command: string[]) => {
    const body = { command, timeout_seconds: 60 }
    const { exit_code, stdout, stderr } = await cloud.client.execInVm({ app_name: 'bytes', job_id, body })
    if (exit_code !== 0) throw new Error(`${command.join(' ')} ended with ${exit_code}: ${stderr}`)
    return stdout
  }
  await exec(['stream', 'make', file, String(fileMib)])
  const { token } = await cloud.client.login({ body: cloud.person })
  const env = { ...process.env, MOTE_URL: cloud.apiUrl, MOTE_TOKEN: token ?? '', HOME: cloud.dir }
  const serve = ['exec', '--app', 'bytes', '--', 'stream', 'serve', String(port), file]
  const server = spawn(process.execPath, ['src/cli/main.ts', ...serve], { env, stdio: 'ignore' })
  cleanup.defer(() => void server.kill('SIGKILL'))
  const [address = ''] = (await exec(['hostname', '-i'])).trim().split(' ')
  await until(() => isListening(address), { what: 'the server in the guest', timeoutMs: 60_000, everyMs: 200 })
  const { host, localAddress } = toGuest(address)
  const relay = { host: '127.0.0.1', port: await startRelay(cleanup, host, localAddress), allowHalfOpen: true }
  return { cloud, address, jobId: job_id ?? '', token: token ?? '', relay, times, env }
}

async function startRelay(cleanup: AsyncDisposableStack, host: string, localAddress: string): Promise<number> {
  const args = ['bench/relay-child.ts', host, String(port), localAddress]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  cleanup.defer(() => void child.kill('SIGKILL'))
  const [said] = await once(child.stdout, 'data')
  return Number(said)
}

async function compare(report: Report, hypervisor: Hypervisor, times: number): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const guest = await prepare(cleanup, hypervisor, times)
  const mib = times * fileMib
  const source = join(guest.cloud.dir, 'source')
  await writeText(source, mib)
  const exec = (...command: string[]) => ['exec', '-i', '--app', 'bytes', '--', 'stream', ...command]
  /** Returns the MiB per second of a command, without the time that the same command takes if there is no data. */
  const rate = async (act: (isEmpty: boolean) => Promise<number>) => {
    const idle = await act(true)
    return mib / ((await act(false)) - idle)
  }
  const direct = toGuest(guest.address)
  const echoes = await inTurns(rounds, { bare: () => bareEchoes(direct), session: () => sessionEchoes(guest) })
  const bare = report.samples(`${hypervisor}: echo of a byte, bare TCP`, 'ms', echoes.bare.flat())
  const typed = report.samples(`${hypervisor}: echo of a byte in a terminal`, 'ms', echoes.session.flat())
  report.verdict(
    `${hypervisor}: echo of a key in a session minus echo over bare TCP (median), ms`,
    typed.median - bare.median,
    5,
  )
  const found = await inTurns(rounds, {
    bareOut: () => bareOut(guest, direct),
    relayOut: () => bareOut(guest, guest.relay),
    out: () => rate(isEmpty => cli(guest, exec('give', file, isEmpty ? '0' : String(times)))),
    bareIn: () => bareIn(guest, direct),
    relayIn: () => bareIn(guest, guest.relay),
    in: () => rate(isEmpty => cli(guest, exec('take'), isEmpty ? undefined : source)),
  })
  report.samples(`${hypervisor}: out of the VM`, 'MiB/s', found.out)
  report.samples(`${hypervisor}: out of the VM, bare TCP`, 'MiB/s', found.bareOut)
  report.samples(`${hypervisor}: out of the VM, TCP through Node.js`, 'MiB/s', found.relayOut)
  report.samples(`${hypervisor}: into the VM`, 'MiB/s', found.in)
  report.samples(`${hypervisor}: into the VM, bare TCP`, 'MiB/s', found.bareIn)
  report.samples(`${hypervisor}: into the VM, TCP through Node.js`, 'MiB/s', found.relayIn)
  report.atLeast(
    `${hypervisor}: rate of a session out of the VM / rate of bare TCP`,
    ratioOfRounds(found.out, found.bareOut),
    0.5,
  )
  report.atLeast(
    `${hypervisor}: rate of a session into the VM / rate of bare TCP`,
    ratioOfRounds(found.in, found.bareIn),
    0.5,
  )
}

async function writeText(path: string, mib: number): Promise<void> {
  await using target = await open(path, 'w')
  const text = Buffer.alloc(bytesPerMib, 'abcdefghijklmnopqrstuvwxyz 0123456789\n')
  for (let n = 0; n < mib; n++) await target.write(text)
}

export const sessionBytes: Benchmark = {
  name: 'session-bytes',
  goal: 'a session moves bytes at half the rate of a bare TCP connection to the same guest, and echoes a key at most 5 ms later than the connection does',
  how: 'mote exec runs in its own process and connects to mote up in another one: a program in the guest writes a file of 64 MiB to its output several times, or reads its input. This alternates with a TCP connection to a program in the same guest that does the same with a socket. The time of the same command without data is subtracted. A second TCP connection passes through another Node.js process, which only forwards the bytes. The echo is that of cat in a terminal; the API client for this runs in the process of the benchmark.',
  reading:
    'A byte of a session passes init, the port of the hypervisor, the agent, the control plane, a WebSocket and the CLI; a byte of the connection passes the network of the guest. In this benchmark, the agent and the control plane share one thread. The result depends strongly on other load: a session needs the processor in five processes, the connection in two.',
  onlyByName: true,
  unable: missingForVms,
  async run(report) {
    await compare(report, 'gvisor', 4)
    await compare(report, 'qemu', 1)
  },
}
