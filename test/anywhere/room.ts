/**
 * A "room": a root file system with its own mount, process, host name, IPC and network namespaces, in which programs
 * run as on a separate machine. Everything in it, including taps and firewall rules, disappears with its first process,
 * which exits when this process does.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readdir, readFile, readlink, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../src/lib/exec.ts'
import { type OwnGroup, ownGroup } from './limits.ts'
import { wire } from './wire.ts'

/** A directory of this machine, and the path at which it is mounted in the room. */
export interface Bind {
  readonly from: string
  readonly to: string
}

export interface RoomOptions {
  readonly root: string
  readonly hostname: string
  readonly binds: readonly Bind[]
  /** Mount options of the tmpfs on /tmp; null if /tmp is a plain directory, as in Debian before 13. */
  readonly tmp: string | null
  /** Names below /dev of devices in addition to those that every system has, such as `kvm`. */
  readonly devices: readonly string[]
  /** Free space on the disk of the root file system; null if not limited. */
  readonly freeMib: number | null
}

export interface Room extends AsyncDisposable {
  /** Address at which programs in the room reach this machine. */
  readonly host: string
  /** The room's own control group; undefined if this machine has no cgroup version 2. */
  readonly group: OwnGroup | undefined
  /** Returns the command that runs `argv` in the room as root. */
  inside(argv: readonly string[]): readonly [program: string, ...args: string[]]
  /** Returns the command that runs `argv`, a program of this machine, in the room's network only. */
  beside(argv: readonly string[]): readonly [program: string, ...args: string[]]
  /** Names of the programs that run in the room. */
  processes(): Promise<string[]>
}

/**
 * Script of the room's first process (PID 1), a shell, which reaps orphaned processes: programs in the room wait until
 * their killed children have disappeared. It runs until its standard input ends, that is, until this process exits.
 */
const init = 'exec 3<&0; cat <&3 >/dev/null & echo up; wait $!'
const namespaces = ['--mount', '--pid', '--uts', '--ipc', '--net']
const plainDevices = ['null', 'zero', 'full', 'random', 'urandom', 'tty']

export async function openRoom(options: RoomOptions): Promise<Room> {
  await using undo = new AsyncDisposableStack()
  const group = await ownGroup()
  undo.use(group)
  const unshare = ['--fork', '--kill-child', '--propagation', 'private', ...namespaces, 'sh', '-c', init]
  const holder = spawn('unshare', unshare, { stdio: 'pipe', detached: true, cwd: '/' })
  undo.defer(() => ended(holder))
  await Promise.race([once(holder.stdout, 'data'), failed(holder)])
  const pid = await childOf(holder.pid ?? 0)
  const target = ['--target', String(pid)]
  const outside = (program: string, ...args: string[]) => run('nsenter', [...target, ...namespaces, program, ...args])
  const { host } = undo.use(await wire(pid))
  await outside('hostname', options.hostname)
  undo.defer(() => rm(`${options.root}.img`, { force: true }))
  const root = options.freeMib === null ? options.root : await onOwnDisk(options.root, options.freeMib, outside)
  await mountAll({ ...options, root }, group, outside)
  await enterRoot(root, outside)
  const all = undo.move()
  return {
    host,
    group,
    inside: argv => ['nsenter', ...target, ...namespaces, ...argv],
    beside: argv => ['nsenter', ...target, '--net', ...argv],
    processes: async () => {
      const own = new Set(['cat', 'sh'])
      const names = await Promise.all(
        (await processesIn(pid)).map(one => readFile(`/proc/${one}/comm`, 'utf8').catch(() => '')),
      )
      return names.map(name => name.trim()).filter(name => name !== '' && !own.has(name))
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

type Outside = (program: string, ...args: string[]) => Promise<string>

async function mountAll(
  { root, binds, tmp, devices }: RoomOptions,
  group: OwnGroup | undefined,
  outside: Outside,
): Promise<void> {
  const at = (path: string) => join(root, path)
  const mount = (type: string, path: string, option: string) =>
    outside('mount', '-t', type, '-o', option, type, at(path))
  await outside('mount', '--bind', root, root)
  await mount('proc', 'proc', 'nosuid,nodev,noexec')
  await mount('sysfs', 'sys', 'nosuid,nodev,noexec')
  if (existsSync('/sys/fs/cgroup')) await outside('mount', '--rbind', '/sys/fs/cgroup', at('sys/fs/cgroup'))
  if (group !== undefined) await outside('mount', '--bind', group.dir, at(group.mount))
  await mount('tmpfs', 'run', 'nosuid,nodev,mode=755')
  if (tmp !== null) await mount('tmpfs', 'tmp', tmp)
  await mount('tmpfs', 'dev', 'nosuid,mode=755')
  await outside('mkdir', at('dev/pts'), at('dev/shm'), at('dev/net'))
  await mount('devpts', 'dev/pts', 'nosuid,noexec,newinstance,gid=5,mode=620,ptmxmode=666')
  await mount('tmpfs', 'dev/shm', 'nosuid,nodev,mode=1777')
  const links = { ptmx: 'pts/ptmx', fd: '/proc/self/fd', stdin: 'fd/0', stdout: 'fd/1', stderr: 'fd/2' }
  for (const [name, to] of Object.entries(links)) await outside('ln', '-s', to, at(`dev/${name}`))
  for (const name of [...plainDevices, ...devices].filter(name => existsSync(`/dev/${name}`)))
    await outside('cp', '-a', `/dev/${name}`, at(`dev/${name}`))
  for (const { from, to } of binds) {
    await outside('mkdir', '-p', at(to))
    await outside('mount', '--bind', from, at(to))
  }
}

/**
 * Copies the root to its own file system with this much free space. Not to a tmpfs: if that is full, programs that
 * write to mapped files are killed instead of getting an error.
 * @returns the path of the copy
 */
async function onOwnDisk(root: string, freeMib: number, outside: Outside) {
  const image = `${root}.img`
  const used = Number((await run('du', ['-sm', root])).split('\t')[0])
  // Inode tables and other metadata take about 3 %.
  const sizeMib = Math.ceil((used + freeMib) * 1.03)
  await run('mke2fs', ['-q', '-t', 'ext4', '-m', '0', '-O', '^has_journal', '-d', root, image, `${sizeMib}m`])
  const place = join(root, 'media')
  await outside('mount', '-o', 'loop', image, place)
  return place
}

/** Switches to the root file system with pivot_root, because the kernel refuses user namespaces in a mere chroot. */
async function enterRoot(root: string, outside: Outside): Promise<void> {
  await outside('pivot_root', root, join(root, 'mnt'))
  await outside('umount', '--lazy', '/mnt')
}

async function ended(holder: ChildProcess): Promise<void> {
  if (holder.exitCode !== null || holder.signalCode !== null) return
  const exit = once(holder, 'exit')
  // Kills `unshare`. PID 1 of the room dies with it (--kill-child), and the kernel then kills all other processes in
  // the PID namespace.
  holder.kill('SIGKILL')
  holder.stdin?.destroy()
  await exit
}

async function failed(holder: ChildProcess): Promise<never> {
  let text = ''
  holder.stderr?.setEncoding('utf8').on('data', (more: string) => {
    text += more
  })
  const [code] = await once(holder, 'exit')
  throw new Error(`unshare ended with ${String(code)}: ${text.trim()}`)
}

async function childOf(pid: number): Promise<number> {
  const child = Number((await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ')[0])
  if (!(child > 0)) throw new Error('BUG: unshare has no child')
  return child
}

async function processesIn(pid: number): Promise<string[]> {
  const namespaceOf = (one: string) => readlink(`/proc/${one}/ns/pid`).catch(() => '')
  const own = await namespaceOf(String(pid))
  const all = (await readdir('/proc')).filter(name => /^\d+$/.test(name))
  const found = await Promise.all(all.map(async one => ((await namespaceOf(one)) === own ? one : '')))
  return found.filter(one => one !== '' && own !== '')
}
