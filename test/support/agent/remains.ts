/**
 * Removes what agents of killed test runs have left on this machine: sandboxes and VMMs, mounts, network devices,
 * firewall tables and cgroups. Each test process lists the directories of its agents in a file. These are only removed
 * once that process is gone.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { readdir, readFile, rm, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { identifyProcess, isRunning, type ProcessIdentity } from '../../../src/lib/process-identity.ts'

/** Directory of the files in which test processes list the directories of their agents. */
const ownersDir = join(tmpdir(), 'mote-test-owners')

/** Returns the id of the PID namespace: in another container, the same PID is another process. */
const pidNamespace = () => readlinkSync('/proc/self/ns/pid').replace(/\D/g, '')

const owned = new Set<string>()

/** Adds a directory to the list of this process. Synchronous, so that the list is complete if the process is killed. */
export function own(dir: string): void {
  owned.add(dir)
  writeOwned()
}

/** Removes a directory from the list of this process, to be called once the directory has been deleted. */
export function disown(dir: string): void {
  owned.delete(dir)
  writeOwned()
}

function writeOwned(): void {
  const self = identifyProcess(process.pid)
  if (self === undefined) return
  const file = join(ownersDir, `${pidNamespace()}-${self.pid}-${self.startTicks}`)
  mkdirSync(ownersDir, { recursive: true })
  if (owned.size === 0) rmSync(file, { force: true })
  else writeFileSync(file, [...owned].map(dir => `${dir}\n`).join(''))
}

/** Removes the remains of every test process that is gone. @returns the directories of their agents */
export async function removeAbandoned(owners = ownersDir): Promise<string[]> {
  const removed: string[] = []
  for (const name of await readdir(owners).catch(() => [])) {
    const [, namespace, pid, startTicks] = /^(\d+)-(\d+)-(\d+)$/.exec(name) ?? []
    if (namespace !== pidNamespace() || isRunning({ pid: Number(pid), startTicks: Number(startTicks) })) continue
    const dirs = await readFile(join(owners, name), 'utf8').catch(() => '')
    for (const dir of new Set(dirs.split('\n').filter(Boolean))) if (await removeRemains(dir)) removed.push(dir)
    await rm(join(owners, name), { force: true })
  }
  return removed
}

/** Removes an agent's directory and everything that belongs to it. Idempotent. @returns true if there was anything */
export async function removeRemains(dir: string): Promise<boolean> {
  // Never remove the temporary directory itself, or a directory that is not from a test.
  if (!/\/mote-[\w-]+$/.test(dir)) throw new Error(`${dir} is no directory of a test`)
  const processes = await processesOf(dir)
  for (const { pid } of processes) kill(pid)
  for (let waits = 0; waits < 100 && processes.some(isRunning); waits++) await pause(50)
  const slots = await slotsOf(dir)
  for (const { slot } of slots) await freeSlot(slot)
  const mounts = mountsBelow(dir)
  for (const mount of mounts) await attempt('umount', ['--lazy', mount])
  for (const dataDir of new Set([dir, ...slots.map(slot => slot.dataDir)])) await removeGroups(dataDir)
  const isThere = await readdir(dir).then(
    () => true,
    () => false,
  )
  await rm(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  return isThere || processes.length + slots.length + mounts.length > 0
}

/** Returns gVisor sandboxes with their gofers, and VMMs, whose directories are below `dir`. */
async function processesOf(dir: string): Promise<ProcessIdentity[]> {
  const found: ProcessIdentity[] = []
  for (const pid of (await readdir('/proc')).filter(name => /^\d+$/.test(name))) {
    const args = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    const words = args.split('\0')
    const isSandbox =
      /^runsc-(sandbox|gofer)$/.test(words[0] ?? '') && words.some(word => isBelow(word, `--root=${dir}`))
    const isVmm = /qemu-system|firecracker|cloud-hypervisor/.test(words[0] ?? '') && args.includes(`${dir}/`)
    const identity = isSandbox || isVmm ? identifyProcess(Number(pid)) : undefined
    if (identity) found.push(identity)
  }
  return found
}

const isBelow = (path: string, dir: string) => path === dir || path.startsWith(`${dir}/`)

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process has already exited.
  }
}

const slotDir = '/run/mote/slots'

/** Returns the network slots (number ranges for devices) of agents with a data directory at or below `dir`. */
async function slotsOf(dir: string): Promise<{ readonly slot: number; readonly dataDir: string }[]> {
  const names = (await readdir(slotDir).catch(() => [])).filter(name => /^\d+$/.test(name))
  const owners = await Promise.all(names.map(name => readFile(join(slotDir, name), 'utf8').catch(() => '')))
  return names
    .map((name, n) => ({ slot: Number(name), dataDir: owners[n] ?? '' }))
    .filter(({ dataDir }) => isBelow(dataDir, dir))
}

/** Removes the network devices, namespaces and firewall tables of a slot, whose names contain its number. */
async function freeSlot(slot: number): Promise<void> {
  const prefix = `mote${slot.toString(16)}`
  for (const name of await readdir('/sys/class/net'))
    if (name.startsWith(prefix)) await attempt('ip', ['link', 'del', name])
  const namespaces = await readdir('/run/netns').catch(() => [])
  for (const name of namespaces) if (name.startsWith(prefix)) await attempt('ip', ['netns', 'del', name])
  for (const family of ['inet', 'arp']) await attempt('nft', ['delete', 'table', family, `mote_${slot.toString(16)}`])
  await rm(join(slotDir, String(slot)), { force: true })
}

/** Returns the mount points at or below `dir`, deepest first. */
const mountsBelow = (dir: string): string[] =>
  [...readFileSync('/proc/self/mounts', 'utf8').matchAll(/^\S+ (\S+) /gm)]
    .map(([, mount = '']) => mount)
    .filter(mount => isBelow(mount, dir))
    .toReversed()

/** Removes the empty cgroups of an agent in every hierarchy; their names derive from the directory (cgroups.ts). */
async function removeGroups(dataDir: string): Promise<void> {
  const name = createHash('sha256').update(dataDir).digest('hex').slice(0, 16)
  const mounts = readFileSync('/proc/self/mounts', 'utf8').matchAll(/^\S+ (\S+) cgroup2? /gm)
  for (const [, mount = ''] of mounts) {
    const agent = join(mount, 'mote', name)
    const groups = await readdir(agent, { withFileTypes: true }).catch(() => [])
    for (const group of groups.filter(one => one.isDirectory()))
      await rmdir(join(agent, group.name)).catch(() => undefined)
    await rmdir(agent).catch(() => undefined)
  }
}

/** Runs a command and ignores its failure: the object may be gone already, or belong to another user. */
async function attempt(program: string, args: readonly string[]): Promise<void> {
  const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' }
  await promisify(execFile)(program, args, { env, timeout: 10_000 }).catch(() => undefined)
}
