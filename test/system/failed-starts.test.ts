// Not repeated on the distribution's PostgreSQL: this file tests processes, not the database.
/**
 * A program that cannot start exits within seconds and prints one sentence with the reason, so that its supervisor can
 * restart it. Tested with the built program, and partly with the sources.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkInstallationSecret } from '../../src/control/auth/index.ts'
import { statement } from '../../src/db/db.ts'
import { run } from '../../src/lib/exec.ts'
import { tryHostLock } from '../../src/lib/host-lock.ts'
import { createVault } from '../../src/lib/vault.ts'
import { runsAll } from '../support/all-examples.ts'
import { cutWhen } from '../support/cut.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { recordOutput } from '../support/log.ts'
import { type NatsServer, natsMissing, startNatsServer } from '../support/nats.ts'
import { builtProgram } from '../support/program.ts'
import { startReaper } from '../support/reaper.ts'
import { promisedMs } from '../support/wait.ts'

const root = join(import.meta.dirname, '..', '..')
const built = await builtProgram()
const reaper = startReaper()
const programs = ['control', 'gateway', 'agent', 'up'] as const
type Program = (typeof programs)[number]

/** How a program is started: arguments and environment variables. */
interface Surroundings {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Command prefix that starts the program, such as `unshare --mount`. */
  readonly inside?: readonly string[]
}

let dir: string
let database: TestDatabase
let nats: NatsServer | undefined
let natsWithoutStreams: NatsServer | undefined
let takenPort: string
const taken = createServer()
const canMount = await run('unshare', ['--mount', 'true']).then(
  () => true,
  () => false,
)

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-starts-'))
  database = await testDatabase()
  if (natsMissing === undefined) {
    nats = await startNatsServer()
    natsWithoutStreams = await startNatsServer({ jetStream: false })
  }
  await once(taken.listen(0, '127.0.0.1'), 'listening')
  takenPort = String((taken.address() as AddressInfo).port)
}, 120_000)
afterAll(async () => {
  taken.close()
  await nats?.stop()
  await natsWithoutStreams?.stop()
  await database.drop()
  await reaper.finish()
  await rm(dir, { recursive: true, force: true })
})

const nowhere = '127.0.0.1:1'
const fake = ['--hypervisor', 'fake']
const anyPorts = ['--port', '0', '--gateway-port', '0', '--ssh-port', '0']
const secret = { MOTE_SECRET_KEY: 'failed-starts-'.repeat(3) }
let runs = 0
const ownData = () => join(dir, `data-${runs++}`)

/** Arguments and environment variables with which each program starts successfully. */
const well: Readonly<Record<Program, (databaseUrl: string) => Surroundings>> = {
  control: databaseUrl => ({
    args: ['--port', '0'],
    env: { DATABASE_URL: databaseUrl, NATS_URL: nats?.url ?? '', MOTE_DATA: ownData(), ...secret },
  }),
  gateway: () => ({
    args: ['--gateway-port', '0', '--ssh-port', '0', '--data', ownData()],
    env: { NATS_URL: nats?.url ?? '' },
  }),
  agent: () => ({ args: [...fake, '--data', ownData()], env: { NATS_URL: nats?.url ?? '' } }),
  up: databaseUrl => ({
    args: [...anyPorts, ...fake, '--data', ownData()],
    env: { ...secret, DATABASE_URL: databaseUrl },
  }),
}

/** Adds flags, which override earlier ones of the same name. */
const flags = (...args: string[]) => ({ args })
const env = (variables: Record<string, string>) => ({ env: variables })
const mounted = (options: string, then: string) => ({
  args: ['--data', dir],
  env: { MOTE_DATA: dir },
  inside: [
    ...['unshare', '--mount', '--', 'sh', '-c', `mount -t tmpfs -o ${options} none "$0" && { ${then}; exec "$@"; }`],
    dir,
  ],
})
const full = () => mounted('size=64k', 'cat /dev/zero > "$0/filler" 2> /dev/null')
const readOnly = () => mounted('ro', 'true')
/** A fault: the database connection breaks (or hangs) when the program sends text that matches `at`. */
const databaseUntil = (at: RegExp, how?: 'hang') => async (undo: AsyncDisposableStack, databaseUrl: string) => {
  const [, user = '', name = '', host = ''] = /\/\/(\w+)@\/(\w+)\?host=(.+)$/.exec(databaseUrl) ?? []
  const cut = undo.use(await cutWhen(join(decodeURIComponent(host), '.s.PGSQL.5432'), at, how))
  undo.defer(() => expect(cut.happened(), 'the start came as far as the cut').toBe(true))
  return env({ DATABASE_URL: `postgresql://${user}@127.0.0.1:${cut.port}/${name}` })
}
const busUntil = (at: RegExp, how?: 'hang') => async (undo: AsyncDisposableStack) => {
  const cut = undo.use(await cutWhen(Number(new URL(nats?.url ?? '').port), at, how))
  undo.defer(() => expect(cut.happened(), 'the start came as far as the cut').toBe(true))
  return env({ NATS_URL: `nats://127.0.0.1:${cut.port}` })
}
const locked = (name: (data: string) => string) => async (undo: AsyncDisposableStack) => {
  const data = ownData()
  const lock = await tryHostLock(name(data))
  undo.defer(() => lock?.release())
  return flags('--data', data)
}
const editedHistory = async (undo: AsyncDisposableStack) => {
  const old = undo.use(await testDatabase())
  await old.db.run(statement('starts.edit', "UPDATE schema_migration SET checksum = 'other' WHERE number = 1"))
  return env({ DATABASE_URL: old.url })
}
/** A fault: the database accepts no more sessions. The role is no superuser, because superusers have no such limit. */
const noSessionLeft = async (undo: AsyncDisposableStack) => {
  const busy = undo.use(await testDatabase())
  const name = /\/(test_\w+)\?/.exec(busy.url)?.[1] ?? ''
  const role = `starts_${process.pid}_${runs++}`
  await busy.db.run(statement('starts.limit', `ALTER DATABASE ${name} CONNECTION LIMIT 0`))
  await busy.db.run(statement('starts.role', `CREATE ROLE ${role} LOGIN`))
  undo.defer(async () => void (await database.db.run(statement(`${role}.drop`, `DROP ROLE ${role}`))))
  return env({ DATABASE_URL: busy.url.replace('//mote@', `//${role}@`) })
}

/** Starts a server that accepts connections and never responds, and returns its port. */
const silent = async (undo: AsyncDisposableStack) => {
  const server = createServer(socket => void undo.defer(() => void socket.destroy()))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  undo.defer(() => void server.close())
  return (server.address() as AddressInfo).port
}
/** A fault: the database belongs to an installation with a different secret. */
const otherSecret = async (undo: AsyncDisposableStack) => {
  const other = undo.use(await testDatabase())
  await checkInstallationSecret(other.db, createVault(['another-secret-'.repeat(3)]))
  return env({ DATABASE_URL: other.url })
}

type Fault = (undo: AsyncDisposableStack, databaseUrl: string) => Partial<Surroundings> | Promise<Partial<Surroundings>>
interface Expected {
  readonly fault: Fault
  /** Pattern of the sentence that the program must print. */
  readonly says: RegExp
}

const busGone: Expected = { fault: () => env({ NATS_URL: `nats://${nowhere}` }), says: /cannot connect to NATS at/ }
const busWithoutStreams: Expected = {
  fault: () => env({ NATS_URL: natsWithoutStreams?.url ?? '' }),
  says: /JetStream/,
}
const databaseGone: Expected = {
  fault: () => env({ DATABASE_URL: `postgresql://mote@${nowhere}/mote` }),
  says: /database/,
}
const databaseSilent: Expected = {
  fault: async undo => env({ DATABASE_URL: `postgresql://mote@127.0.0.1:${await silent(undo)}/mote` }),
  says: /database/,
}
const busSilent: Expected = {
  fault: async undo => env({ NATS_URL: `nats://127.0.0.1:${await silent(undo)}` }),
  says: /cannot connect to NATS at/,
}
const secretOfOthers: Expected = {
  fault: otherSecret,
  says: /^the configured secret does not belong to this database/,
}
const databaseHangs = (at: RegExp): Expected => ({
  fault: databaseUntil(at, 'hang'),
  says: /database did not answer within 4 s/,
})
const shortSecret: Expected = { fault: () => env({ MOTE_SECRET_KEY: 'short' }), says: /secret key is shorter than 32/ }
const fullDisk: Expected = { fault: full, says: /[Nn]o space/ }
const readOnlyData: Expected = { fault: readOnly, says: /read-only|cannot be created/ }
const noDirectory: Expected = {
  fault: () => ({ args: ['--data', '/dev/null/data'], env: { MOTE_DATA: '/dev/null/data' } }),
  says: /not a directory/,
}
const portOf = (flag: string): Expected => ({
  fault: () => flags(flag, takenPort),
  says: flag === '' ? /^Port \d+ of 127\.0\.0\.1 is in use/ : new RegExp(`^Port \\d+ is in use: .*${flag} `),
})

const faults: Readonly<Record<Program, Readonly<Record<string, Expected>>>> = {
  control: {
    'the port of the API is taken': portOf('--port'),
    'the port of its metrics is taken': portOf('--metrics-port'),
    'the database is gone': databaseGone,
    'the database accepts no more sessions': { fault: noSessionLeft, says: /too many connections/ },
    'the database goes away while it is migrated': { fault: databaseUntil(/pg_advisory_lock/), says: /database/ },
    'the database goes away before the first statement': { fault: databaseUntil(/db\.ping/), says: /database/ },
    'the database goes away before it listens': { fault: databaseUntil(/LISTEN/), says: /database/ },
    'the database goes away before the runner has its lock': {
      fault: databaseUntil(/pg_try_advisory_lock/),
      says: /database/,
    },
    'the database goes away before the runner is announced': {
      fault: databaseUntil(/engine\.announce/),
      says: /database/,
    },
    'the database goes away before the sweeps run': { fault: databaseUntil(/sweep\.make/), says: /database/ },
    'the database hangs': databaseSilent,
    'the database hangs while it is migrated': databaseHangs(/pg_advisory_lock/),
    'the database hangs before the first statement': databaseHangs(/db\.ping/),
    'the database hangs before it listens': databaseHangs(/LISTEN/),
    'the database hangs before the runner has its lock': databaseHangs(/pg_try_advisory_lock/),
    'the database hangs before the runner is announced': databaseHangs(/engine\.announce/),
    'the database hangs before the sweeps run': databaseHangs(/sweep\.make/),
    'the applied migrations differ from those of this program': {
      fault: editedHistory,
      says: /migration 0001-.* was edited/,
    },
    'the secret belongs to another database': secretOfOthers,
    'the bus is gone': busGone,
    'the bus hangs': busSilent,
    'the bus has no streams': busWithoutStreams,
    'the bus goes away before the streams are made': { fault: busUntil(/JS\.API\.STREAM/), says: /bus|NATS/ },
    'the bus goes away before it subscribes': { fault: busUntil(/SUB control\.out\.rate/), says: /bus|NATS/ },
    'the bus goes away before it serves gateways': { fault: busUntil(/SUB control\.in/), says: /bus|NATS/ },
    'the bus hangs before the streams are made': { fault: busUntil(/JS\.API\.STREAM/, 'hang'), says: /NATS/ },
    'the bus hangs before it serves gateways': {
      fault: busUntil(/SUB control\.in/, 'hang'),
      says: /no answer from the NATS server/,
    },
    'the secret is too short': shortSecret,
    'no secret is set': { fault: () => env({ MOTE_SECRET_KEY: '' }), says: /no secret is configured/ },
  },
  gateway: {
    'the port of HTTP is taken': portOf('--gateway-port'),
    'the port of SSH is taken': portOf('--ssh-port'),
    'the port of HTTPS is taken': { ...portOf(''), fault: () => env({ MOTE_GATEWAY_TLS_PORT: takenPort }) },
    'a port of HTTP belongs to its TCP services': {
      fault: () => ({ args: ['--gateway-port', '20500'], env: { MOTE_TCP_PORTS: '20000-20999' } }),
      says: /MOTE_TCP_PORTS="20000-20999" contains port 20500/,
    },
    'the port of its TCP services with TLS is taken': {
      ...portOf(''),
      fault: () => env({ MOTE_TCP_TLS_PORT: takenPort }),
    },
    'the port of its TCP services with TLS is none': {
      fault: () => env({ MOTE_TCP_TLS_PORT: '0' }),
      says: /MOTE_TCP_TLS_PORT="0": must be a port/,
    },
    'its range of TCP ports is none': {
      fault: () => env({ MOTE_TCP_PORTS: '20000' }),
      says: /MOTE_TCP_PORTS="20000": must be a range of ports/,
    },
    'the port of its routes is taken': { ...portOf(''), fault: () => env({ MOTE_GATEWAY_PUBLISH_PORT: takenPort }) },
    'the bus is gone': busGone,
    'the bus hangs': busSilent,
    'the bus goes away before it subscribes': { fault: busUntil(/SUB route/), says: /bus|NATS/ },
    'the bus hangs before it subscribes': {
      fault: busUntil(/SUB route/, 'hang'),
      says: /no answer from the NATS server/,
    },
    'its data directory is on a read-only file system': readOnlyData,
    'its data directory cannot be made': noDirectory,
    'the disk is full': fullDisk,
  },
  agent: {
    'its data directory is locked': {
      fault: locked(data => `agent ${join(data, 'agent')}`),
      says: /another agent runs on/,
    },
    'the bus is gone': busGone,
    'the bus hangs': busSilent,
    'the bus goes away before it subscribes': { fault: busUntil(/SUB host/), says: /bus|NATS/ },
    'the bus hangs before it subscribes': {
      fault: busUntil(/SUB host/, 'hang'),
      says: /no answer from the NATS server/,
    },
    'its data directory is on a read-only file system': readOnlyData,
    'its data directory cannot be made': noDirectory,
    'the disk is full': fullDisk,
  },
  up: {
    'the port of the API is taken': portOf('--port'),
    'the port of HTTP is taken': portOf('--gateway-port'),
    'the port of SSH is taken': portOf('--ssh-port'),
    'the port of the registry is taken': {
      async fault() {
        // The registry runs as another user, which must be able to traverse the directory.
        await chmod(dir, 0o711)
        return flags('--registry-port', takenPort)
      },
      says: existsSync('/usr/bin/docker-registry') ? /in use.*--registry-port/ : /docker-registry/,
    },
    'its data directory is locked': {
      fault: locked(data => `agent ${join(data, 'agent')}`),
      says: /another agent runs on/,
    },
    'the database is gone': databaseGone,
    'the database goes away before the runner has its lock': {
      fault: databaseUntil(/pg_try_advisory_lock/),
      says: /database/,
    },
    'the applied migrations differ from those of this program': {
      fault: editedHistory,
      says: /migration 0001-.* was edited/,
    },
    'the database hangs': databaseSilent,
    'the database hangs before the runner has its lock': databaseHangs(/pg_try_advisory_lock/),
    'the secret belongs to another database': secretOfOthers,
    'the bus is gone': busGone,
    'the bus hangs': busSilent,
    'the secret is too short': shortSecret,
    'its data directory is on a read-only file system': readOnlyData,
    'its data directory cannot be made': noDirectory,
    'the disk is full': fullDisk,
  },
}

const needsMount = new Set<Expected>([fullDisk, readOnlyData])
const cases = programs.flatMap(program =>
  Object.entries(faults[program]).map(([what, expected]) => ({ program, what, expected })),
)

/**
 * Faults in `npm test`: for each program a taken port or a locked directory, and for `mote control` servers that are
 * gone or hang during its start. They cover the other phases of a start and `mote up`, because all programs and phases
 * end in the same code. For other reasons to fail, see src/db/migrate.test.ts and
 * src/control/auth/installation-secret.test.ts.
 */
const few: Readonly<Record<Program, readonly string[]>> = {
  control: [
    'the port of the API is taken',
    'the database hangs',
    'the database goes away while it is migrated',
    'the database hangs before the runner has its lock',
    'the database goes away before the sweeps run',
    'the bus hangs',
    'the bus has no streams',
    'the bus goes away before it subscribes',
  ],
  gateway: ['the port of HTTP is taken', 'the bus hangs', 'its range of TCP ports is none'],
  agent: [
    'its data directory is locked',
    'the bus hangs',
    'its data directory is on a read-only file system',
    'the disk is full',
  ],
  up: ['the port of the API is taken', 'its data directory is locked'],
}
const chosen = cases.filter(({ program, what }) => runsAll || few[program].includes(what))

/**
 * One fault of each program, for runs of the sources. These differ from the built program only in how modules are
 * loaded, so in `npm test` one fault of `mote control` is enough.
 */
const first = programs.flatMap(program => cases.filter(one => one.program === program).slice(0, 1))
const artifacts = [
  { name: 'the sources', main: 'src/cli/main.ts', faulty: runsAll ? first : first.slice(0, 1) },
  { name: 'the built program', main: built, faulty: chosen },
] as const

describe.skipIf(natsMissing).each(artifacts)(`$name ${natsMissing ?? ''}`, ({ main, faulty }) => {
  // The tests run concurrently, because most of them wait for a timeout. Each has its own database, because two control
  // planes on one database would wait for each other's locks.
  it.concurrent.each(faulty)(
    'mote $program exits with a sentence on the reason when $what',
    { timeout: 60_000 },
    async ({ program, expected }) => {
      if (needsMount.has(expected) && !canMount) return
      await using undo = new AsyncDisposableStack()
      const { url } = program === 'control' || program === 'up' ? undo.use(await testDatabase()) : database
      const usual = well[program](url)
      const fault = await expected.fault(undo, url)
      const ended = await start(main, program, {
        args: [...usual.args, ...(fault.args ?? [])],
        env: { ...usual.env, ...fault.env },
        inside: fault.inside ?? [],
      })
      expect(ended).toMatchObject({ code: 1, signal: null, sentences: [expect.stringMatching(expected.says)] })
      expect(ended.sentences[0]).not.toMatch(/\n|node_modules|^\s*at /)
      expect(ended.ms).toBeLessThan(promisedMs(10_000))
    },
  )
})

async function start(main: string, program: Program, { args, env: variables, inside = [] }: Surroundings) {
  const begun = performance.now()
  const [command = '', ...rest] = [...inside, process.execPath, main, program, ...args]
  const child = spawn(command, rest, {
    cwd: root,
    env: {
      PATH: process.env['PATH'],
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
      HOME: dir,
      MOTE_LOG_LEVEL: 'info',
      ...variables,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  reaper.killAtEnd(child.pid ?? 0)
  let output = ''
  child.stderr.setEncoding('utf8').on('data', text => {
    recordOutput(text)
    output += text
  })
  // This time limit is longer than the 10 s that the test asserts, so that a slow exit still shows the output.
  const timer = setTimeout(() => child.kill('SIGKILL'), 30_000)
  const [code, signal] = await once(child, 'close')
  clearTimeout(timer)
  reaper.forget(child.pid ?? 0)
  // Keep only the lines that are not log lines (JSON).
  const sentences = output.split('\n').filter(line => line !== '' && !line.startsWith('{'))
  return { code, signal, sentences, ms: performance.now() - begun }
}
