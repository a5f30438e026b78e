/**
 * Tests one test system: unpacks a root file system of its Debian release with the checkout in it, and runs the README's
 * first command and a short series of further commands there.
 */
import { createWriteStream, existsSync } from 'node:fs'
import { chmod, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { finished } from 'node:stream/promises'
import { run } from '../../src/lib/exec.ts'
import { hostLock } from '../../src/lib/host-lock.ts'
import { databaseImageDir } from '../support/database-image.ts'
import { type Cell, checkoutOf } from './cells.ts'
import { carriedEnvironment, certificatePaths, npmrc, resolverFile } from './host.ts'
import { installedTarball } from './installed.ts'
import {
  byHand,
  firstCommand,
  installAsPrinted,
  type Journey,
  oneCommand,
  type Outcome,
  wholeSuite,
} from './journey.ts'
import { type Oddity, oddityOf } from './oddities.ts'
import { openRoom, type Room } from './room.ts'
import { cacheDir, copyCheckout, installNewerNode, rootTarball, unpackRoot } from './roots.ts'
import { openSession, type Session } from './session.ts'
import { sweep } from './sweep.ts'
import { openSteps, secondsSince, type Step, type StepResult } from './step.ts'

export interface CellResult {
  readonly cell: string
  readonly seconds: number
  readonly steps: readonly StepResult[]
  readonly outcome: Outcome | 'fails'
  /** The step that failed, with the reason; null if none failed. */
  readonly failed: string | null
  readonly log: string
}

export interface CellOptions {
  /** Whether to run the whole test suite instead of the commands of a new user (journey.ts). */
  readonly suite: boolean
  /** Whether the test system has the host's /dev/kvm. */
  readonly kvm: boolean
}
const usualOptions: CellOptions = { suite: false, kvm: true }

/** Time limit for all commands on one test system, long enough for a slow host. After it, the test system has failed. */
const cellMs = 45 * 60_000
const suiteMs = 90 * 60_000
const prepareSeconds = 20 * 60
const tailLines = 30

export async function runCell(
  cell: Cell,
  say: (line: string) => void,
  stop: AbortSignal,
  options: CellOptions = usualOptions,
): Promise<CellResult> {
  const startedMs = performance.now()
  const logFile = join(cacheDir, 'logs', `${cell.name}.log`)
  await mkdir(join(cacheDir, 'logs'), { recursive: true })
  const log = createWriteStream(logFile)
  const late = AbortSignal.timeout(options.suite ? suiteMs : cellMs)
  say(cell.name)
  const steps = openSteps(
    line => {
      say(line)
      log.write(`${line}\n`)
    },
    AbortSignal.any([stop, late]),
  )
  const { outcome, failed } = await carryOut(cell, options, steps.step, text => void log.write(text)).then(
    done => ({ outcome: done, failed: null }),
    (cause: unknown) => ({
      outcome: 'fails' as const,
      failed: `${steps.current()}: ${cause instanceof Error ? cause.message : String(cause)}`,
    }),
  )
  log.end(failed === null ? '' : `\n${failed}\n`)
  await finished(log)
  if (failed !== null) say(await explanation(failed, logFile))
  return { cell: cell.name, seconds: secondsSince(startedMs), steps: steps.results, outcome, failed, log: logFile }
}

async function explanation(failed: string, logFile: string): Promise<string> {
  const lines = (await readFile(logFile, 'utf8')).trimEnd().split('\n')
  return [...lines.slice(-tailLines).map(line => `    | ${line}`), `  ${failed}`, `  All of it: ${logFile}`].join('\n')
}

async function carryOut(
  cell: Cell,
  { suite, kvm }: CellOptions,
  step: Step,
  write: (text: string) => void,
): Promise<Outcome> {
  await using undo = new AsyncDisposableStack()
  // Two runs of one checkout must not overlap, because they share a download cache.
  const lock = await step('turn', cellMs / 1000, signal => hostLock(`cells in ${cacheDir}`, signal))
  undo.defer(() => lock.release())
  await sweep()
  const root = join(cacheDir, 'cells', `${cell.name}-${process.pid}`)
  undo.defer(() => rm(root, { recursive: true, force: true }))
  const oddity: Oddity | null = cell.odd === null ? null : oddityOf(cell.odd)
  await step('root', prepareSeconds, signal =>
    oddity?.installed ? unpackInstalled(cell, root, signal, write) : makeRoot(cell, root, signal),
  )
  const { dir, home, user } = checkoutOf(cell)
  // Entries of this stack are released after the room (the namespaces of the test system), because processes in the room
  // use them.
  const releases = undo.use(new AsyncDisposableStack())
  const room = await step('room', prepareSeconds, async () =>
    undo.use(
      await openRoom({
        ...usualRoom(cell, root, kvm),
        ...(suite ? { devices: [...usualRoom(cell, root, kvm).devices, ...disks] } : {}),
        ...oddity?.room,
        binds: await caches(cell, home, user, root),
      }),
    ),
  )
  const env = { ...usualEnvironment(), ...oddity?.env }
  const plain = openSession({ room, user, home, env, write })
  const prepared = await step('machine', prepareSeconds, signal => prepare(oddity, room, plain, signal))
  releases.defer(async () => prepared?.release?.())
  const through = [...(prepared?.through ?? []), ...(oddity?.through ?? [])]
  const session = openSession({ room, user, home, env: { ...env, ...prepared?.env }, write, through })
  const journey: Journey = { room, session, dir, step }
  if (suite) return await wholeSuite(journey, suiteMs / 1000)
  if (oddity !== null) return await oneCommand(journey, oddity.says)
  // Only users without sudo run the printed apt command as root: with sudo, the first command installs the packages
  // itself.
  if (cell.place === 'user') await installAsPrinted(journey)
  await firstCommand(journey, 'cold')
  await firstCommand(journey, 'warm')
  await byHand(journey, await addDatabaseImage(cell, root), user === 'root')
  return 'works'
}

/** Devices that the storage tests of the suite need. */
const disks = ['fuse', 'loop-control', ...Array.from({ length: 8 }, (_, n) => `loop${n}`)]

const usualRoom = (cell: Cell, root: string, kvm = true) => ({
  root,
  hostname: 'anywhere',
  // Debian mounts /tmp as tmpfs since version 13.
  tmp: cell.distribution === 'bookworm' ? null : 'nosuid,nodev,mode=1777,size=50%',
  devices: kvm ? ['net/tun', 'kvm'] : ['net/tun'],
  freeMib: null,
})

async function prepare(oddity: Oddity | null, room: Room, session: Session, signal: AbortSignal) {
  const asRoot = async (argv: readonly string[]) => {
    const { code } = await session.asRoot.run(argv, { signal })
    if (code !== 0) throw new Error(`${argv.join(' ')} ended with ${code}`)
  }
  return oddity?.prepare?.({ room, asRoot })
}

const usualEnvironment = () => ({ LANG: 'C.UTF-8', TERM: 'dumb', ...carriedEnvironment() })

/**
 * Unpacks a root file system in which the first command has already run, and replaces its checkout and built programs
 * with the current checkout.
 */
async function unpackInstalled(cell: Cell, root: string, signal: AbortSignal, write: (text: string) => void) {
  const { dir, home, user } = checkoutOf(cell)
  const tarball = await installedTarball(cell, signal, async fresh => {
    await makeRoot(cell, fresh, signal)
    await using room = await openRoom({ ...usualRoom(cell, fresh), binds: await caches(cell, home, user, fresh) })
    const session = openSession({ room, user, home, env: usualEnvironment(), write })
    const { code } = await session.run(['npm', 'run', 'demo', '--', '--once'], { cwd: dir, signal })
    if (code !== 0) throw new Error(`the demo ended with ${code} on an ordinary machine`)
  })
  await unpackRoot(tarball, root, signal)
  await rm(join(root, dir, 'dist'), { recursive: true, force: true })
  await copyCheckout(join(root, dir), signal)
}

async function makeRoot(cell: Cell, root: string, signal: AbortSignal): Promise<void> {
  await unpackRoot(await rootTarball(cell.distribution, cell.node, signal), root, signal)
  const at = (path: string) => join(root, path)
  for (const path of certificatePaths)
    await cp(path, at(path), { recursive: true, dereference: false, verbatimSymlinks: true, force: true })
  await writeFile(at('etc/resolv.conf'), await resolverFile())
  await writeFile(at('etc/hosts'), '127.0.0.1 localhost anywhere\n::1 localhost\n')
  if (cell.node === 'newer') await installNewerNode(root, signal)
  const { dir, home, user } = checkoutOf(cell)
  if (user !== 'root') await addUser(root, user, cell.place === 'sudo')
  await writeFile(at(join(home, '.npmrc')), await npmrc(), { mode: 0o600 })
  await copyCheckout(at(dir), signal)
  await chmod(at(home), 0o700)
  if (user !== 'root') await run('chroot', [root, 'chown', '-R', `${user}:${user}`, home])
}

/** Copies the database image into the test system. @returns false if no test on this host has built that image yet */
async function addDatabaseImage(cell: Cell, root: string): Promise<boolean> {
  const made = await databaseImageDir()
  if (!existsSync(made)) return false
  const { dir, user } = checkoutOf(cell)
  const images = join(dir, '.mote/images')
  await mkdir(join(root, images), { recursive: true })
  await run('cp', ['-a', `${made}/.`, join(root, images)])
  await run('chroot', [root, 'chown', '-R', `${user}:`, join(dir, '.mote')])
  return true
}

async function addUser(root: string, user: string, hasSudo: boolean): Promise<void> {
  await run('chroot', [root, 'useradd', '--create-home', '--shell', '/bin/sh', user])
  if (!hasSudo) {
    await run('chroot', [root, 'dpkg', '--purge', 'sudo'], { env: { SUDO_FORCE_REMOVE: 'yes' } })
    return
  }
  const sudoers = join(root, 'etc/sudoers.d')
  await mkdir(sudoers, { recursive: true })
  await writeFile(join(sudoers, user), `${user} ALL=(ALL) NOPASSWD: ALL\n`, { mode: 0o440 })
}

/** Returns the download caches to mount: one for Debian packages, and one for npm that the checkout's user owns. */
async function caches(cell: Cell, home: string, user: string, root: string) {
  const archives = join(cacheDir, 'apt', cell.distribution)
  const npm = join(cacheDir, 'npm')
  await mkdir(join(archives, 'partial'), { recursive: true })
  await mkdir(npm, { recursive: true })
  const [uid, gid] = await ownerIn(root, user)
  await run('chown', ['-R', `${uid}:${gid}`, npm])
  const npmHome = join(home, '.npm')
  await mkdir(join(root, npmHome), { recursive: true })
  await run('chown', [`${uid}:${gid}`, join(root, npmHome)])
  return [
    { from: archives, to: 'var/cache/apt/archives' },
    { from: npm, to: npmHome },
  ]
}

async function ownerIn(root: string, user: string): Promise<readonly [uid: string, gid: string]> {
  const passwd = await readFile(join(root, 'etc/passwd'), 'utf8')
  const [, , uid, gid] =
    passwd
      .split('\n')
      .find(line => line.startsWith(`${user}:`))
      ?.split(':') ?? []
  if (uid === undefined || gid === undefined) throw new Error(`BUG: ${basename(root)} has no account ${user}`)
  return [uid, gid]
}
