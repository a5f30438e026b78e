/** For tests: runs the guest's init as a process of this machine, with sockets instead of the ports of a VM. */
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { type GuestConnection, openGuest } from '../../../src/agent/guest/channel.ts'
import type { GuestFault } from '../../../src/agent/guest/fault.ts'
import { cachedDir } from '../../../src/agent/guest/cache.ts'
import { compileStatic } from '../../../src/agent/guest/init.ts'
import { type GuestPorts, serialPorts } from '../../../src/agent/guest/ports.ts'
import { type GuestSessions, type SessionData, sessionsOf } from '../../../src/agent/guest/sessions.ts'
import { homeDir } from '../../../src/lib/home.ts'
import { until } from '../wait.ts'
import { testDir } from './agent.ts'

const guestDir = fileURLToPath(new URL('../../../guest', import.meta.url))
const guestFile = (name: string) => join(guestDir, `${name}.c`)
const parts = [
  'init',
  'ports',
  'text',
  'workload',
  'programs',
  'exec',
  'given',
  'user',
  'backlog',
  'record',
  'session',
  'session-start',
  'session-pump',
  'relay',
  'files',
  'tar',
  'sftp',
  'processes',
  'watch',
]
const stubs = fileURLToPath(new URL('guest-init.c', import.meta.url))

export interface TestGuest {
  readonly channel: GuestConnection
  readonly sessions: GuestSessions
  readonly faults: readonly GuestFault[]
}

export interface TestInit extends AsyncDisposable {
  /** Connects to the init, as an agent does. The new connection replaces the previous one. */
  connect(): Promise<TestGuest>
  /** Writes raw bytes to the control port, such as half a line, as if the agent were killed while it writes. */
  writeControl(bytes: string): void
}

/** Compiles the init, once for each version of its source, because that takes more than a second of CPU time. */
export async function compiledInit(): Promise<AsyncDisposable & { start(): Promise<TestInit> }> {
  const hash = createHash('sha256')
  const sources = (await readdir(guestDir)).filter(name => /\.[ch]$/.test(name)).toSorted()
  for (const file of [stubs, ...sources.map(name => join(guestDir, name))]) hash.update(await readFile(file))
  const dir = await cachedDir(join(homeDir(), '.cache/mote-tests/init', hash.digest('hex')), target =>
    compileStatic(join(target, 'init'), [stubs, ...parts.map(guestFile)]),
  )
  return { start: () => startInit(join(dir, 'init')), [Symbol.asyncDispose]: async () => undefined }
}

async function startInit(program: string): Promise<TestInit> {
  const dir = await testDir()
  const child = spawn(program, [], { cwd: dir.path, stdio: ['ignore', 'ignore', 'inherit'] })
  await until(() => existsSync(join(dir.path, 'log.sock')), { what: 'the ports of the init' })
  const open = new Set<GuestConnection>()
  let control: Duplex | undefined
  const ports = serialPorts(dir.path)
  const noted: GuestPorts = { log: ports.log, control: async () => (control = await ports.control()) }
  return {
    writeControl: bytes => void control?.write(bytes),
    async connect() {
      const guest = await connectTo(noted)
      open.add(guest.channel)
      return guest
    },
    async [Symbol.asyncDispose]() {
      for (const channel of open) channel.close()
      await ended(child)
      await dir[Symbol.asyncDispose]()
    },
  }
}

/** Connects to the guest's ports (sockets) in the directory, as the agent does. */
export const connectGuest = (dir: string): Promise<TestGuest> => connectTo(serialPorts(dir))

async function connectTo(ports: GuestPorts): Promise<TestGuest> {
  const faults: GuestFault[] = []
  const channel = await openGuest(ports, 0, {
    onFrames: () => undefined,
    onStarted: () => undefined,
    onExit: () => undefined,
    onBroken: fault => void faults.push(fault),
  })
  await channel.ready
  return { channel, sessions: sessionsOf(channel), faults }
}

async function ended(child: ChildProcess): Promise<void> {
  const over = once(child, 'exit')
  child.kill('SIGTERM')
  if (child.exitCode === null) await over
}

/** Attaches to a VM session, and collects and acknowledges its output. */
export function collector(attach: (onData: (part: SessionData) => void) => ReturnType<GuestSessions['attach']>) {
  const outputs = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  let lostBytes = 0
  const attachment = attach(part => {
    // Copy the data, which is valid only during this call.
    outputs[part.stream].push(Buffer.from(part.data))
    lostBytes += part.lostBytes
    attachment.ack(part.stream, part.offset + part.data.length)
  })
  return {
    attachment,
    lostBytes: () => lostBytes,
    stdout: () => Buffer.concat(outputs.stdout),
    stderr: () => Buffer.concat(outputs.stderr),
  }
}
