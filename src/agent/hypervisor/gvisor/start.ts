/** Starts a gVisor sandbox from its image, or from a checkpoint. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, copyFile, type FileHandle, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { abortable } from '../../../lib/abortable.ts'
import { allDone } from '../../../lib/all-done.ts'
import { childEnv } from '../../../lib/child-env.ts'
import { hasCode, privateDir } from '../../../lib/files.ts'
import { identifyProcess, isRunning } from '../../../lib/process-identity.ts'
import { StepError } from '../../base/step-error.ts'
import type { PrepareContext } from '../../base/prepare-context.ts'
import type { Lasting, LastingProcess, Launcher } from '../../launcher/launcher.ts'
import type { GuestChannel } from '../../guest/channel.ts'
import { lastingGuest } from '../../guest/lasting.ts'
import type { Prepared, Running, VmHome, Watcher } from '../driver.ts'
import type { Isolation } from '../isolation.ts'
import { readNotes } from '../prepare.ts'
import { endProcess } from '../process.ts'
import { configFile } from '../snapshot-files.ts'
import { followConsole, type SandboxConsole } from './console.ts'
import { makePipes, openStdio, pipePorts, pipesIn, widenPipes } from './pipes.ts'
import type { Runsc } from './runsc.ts'
import { sandboxSpec, sandboxTasks, shareFiles } from './spec.ts'

export interface SandboxStart {
  readonly runsc: Runsc
  readonly home: VmHome
  readonly prepared: Prepared
  readonly boot: number
  readonly watcher: Watcher
  readonly isolation: Isolation
  readonly launcher: Launcher
  /** Path of the guest's init. */
  readonly init: string
  /** Path of the program that enlarges pipes, if it could be compiled. */
  readonly widener: string | undefined
  readonly limitMs: number
  /** Number of the last log line that the agent has stored; the guest's lines up to it are skipped. */
  readonly fromSeq: number
  /** Directory of a checkpoint that is restored; without it, the sandbox starts from the image. */
  readonly checkpoint?: string
  /** True to create the sandbox without a guest; `restoreArrived` starts the guest later. */
  readonly waits?: boolean
}

/** A started sandbox whose guest may not answer yet. */
export interface Sandbox {
  readonly id: string
  readonly running: Running
  readonly guest: GuestChannel
  readonly console: SandboxConsole
  /** Directory of the sandbox's cgroup; undefined if the host has no cgroups. */
  readonly cgroup: string | undefined
  /** Settles like `step`, but rejects as soon as the sandbox exits or the time limit for the start has passed. */
  unlessEnded<T>(step: Promise<T>): Promise<T>
  /** Like `unlessEnded`, but without a time limit, for steps long after the start. */
  unlessGone<T>(step: Promise<T>): Promise<T>
}

/** Files and directories below a VM's directory. */
const names = { bundle: 'bundle', share: 'share', volumes: 'volumes', overlay: 'overlay', root: 'root', pid: 'pid' }

export const volumesDir = (dir: string): string => join(dir, names.volumes)
export const shareDir = (dir: string): string => join(dir, names.share)

/** Returns the sandbox's id for this boot. Ids are never reused, so leftovers of an earlier sandbox do no harm. */
export const sandboxId = (vmId: string, boot: number): string => `${vmId}-${boot}`

/** Returns the id of the VM to which the sandbox with this id belongs. */
export const vmOf = (id: string): string => id.replace(/-\d+$/, '')

/** Starts the sandbox and passes it to `use`. If that fails, no process is left. */
export async function startSandbox<T>(
  plan: SandboxStart,
  context: PrepareContext,
  use: (sandbox: Sandbox) => Promise<T>,
): Promise<T> {
  const { home, prepared, boot, runsc, isolation, launcher } = plan
  const id = sandboxId(home.vmId, boot)
  const [cgroup] = await allDone([
    makeCgroup(plan),
    context.time('disk', () => makeFiles(plan)),
    makePipes(home.dir, launcher.run),
  ])
  await writeSpec(plan, cgroup)
  const console = followConsole(home.dir)
  const limit = AbortSignal.any([context.signal, AbortSignal.timeout(plan.limitMs)])
  let running: Running | undefined
  let guest: GuestChannel | undefined
  try {
    const pid = await context.time('spawn', () => spawnSandbox(plan, id, cgroup, console, limit))
    const process = identifyProcess(pid)
    if (process === undefined) throw new Error('the sandbox ended at once')
    await enterLate(plan, pid)
    running = { prepared, process, boot }
    guest = connectSandbox(home.dir, running, plan)
    const gone = guest.closed.then(() => Promise.reject(new Error('the sandbox ended')))
    gone.catch(() => undefined)
    const unlessGone = <R>(step: Promise<R>) => Promise.race([step, gone])
    const unlessEnded = <R>(step: Promise<R>) => abortable(unlessGone(step), limit)
    // At its start, the guest takes the memory limit as its memory size, so the reserve is added afterwards.
    await isolation.cgroups?.limitMemory(home.vmId, home.spec.memoryMib + overheadMib)
    return await use({ id, running, guest, console, cgroup, unlessEnded, unlessGone })
  } catch (error) {
    guest?.close()
    if (running) await endProcess(running)
    await runsc.remove(id).catch(() => undefined)
    console.close()
    if (error instanceof StepError) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw new Error(`the guest did not start: ${reason}; console: ${console.tail() || 'silent'}`, { cause: error })
  }
}

/** Connects to the guest of a running sandbox. */
export function connectSandbox(
  dir: string,
  running: Running,
  { fromSeq, watcher }: Pick<SandboxStart, 'fromSeq' | 'watcher'>,
): GuestChannel {
  const { onFrames, onExit, onBroken } = watcher
  const events = { onFrames, onStarted: () => undefined, onExit, onBroken }
  return lastingGuest(pipePorts(dir), fromSeq, events, () => isRunning(running.process))
}

/**
 * Memory that a VM's cgroup has in addition to the guest's: the sandbox itself takes 40 MiB, and 110 MiB while it
 * writes a checkpoint. Without this reserve, the kernel killed sandboxes of 128 MiB during a snapshot.
 */
const overheadMib = 128

async function makeCgroup({ isolation, home }: SandboxStart): Promise<string | undefined> {
  const { vcpus, memoryMib } = home.spec
  return isolation.cgroups?.make(home.vmId, { vcpus, memoryMib, vmmCpus: 0, tasks: sandboxTasks, keepsOthers: true })
}

/**
 * Moves the sandbox into its cgroup v2 group if it is not in it yet. On a host with v1 and v2, runsc sets only v1
 * groups. The sandbox inherits the v2 group from runsc, unless runsc was moved into that group too late (busy host).
 */
async function enterLate({ isolation, home }: SandboxStart, pid: number): Promise<void> {
  const { cgroups } = isolation
  if (cgroups === undefined) return
  const groups = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')
  if (groups.split('\n').includes(`0::${cgroups.pathOf(home.vmId)}`)) return
  await cgroups.enter(home.vmId, pid).catch(() => undefined)
}

async function makeFiles({ home, init }: SandboxStart): Promise<void> {
  const { dir } = home
  const empty = async (name: string) => {
    await rm(join(dir, name), { recursive: true, force: true })
    await privateDir(join(dir, name))
  }
  await allDone([names.bundle, names.overlay, names.root, names.share].map(empty))
  await fillShare(dir, { init, config: join(dir, configFile) })
}

/** Copies the guest's init and its configuration into the directory that the guest can read. */
async function fillShare(dir: string, from: { readonly init: string; readonly config: string }): Promise<void> {
  const copy = async (name: keyof typeof from, mode: number) => {
    const file = join(shareDir(dir), shareFiles[name])
    await rm(file, { force: true })
    await copyFile(from[name], file)
    await chmod(file, mode)
  }
  await allDone([copy('init', 0o500), copy('config', 0o400)])
}

async function writeSpec({ home, prepared, isolation }: SandboxStart, cgroup: string | undefined): Promise<void> {
  const { dir, spec } = home
  const { base, tap } = readNotes(prepared)
  if (tap === null) throw new StepError('unsupported_by_hypervisor', 'gVisor needs taps: run the agent as root')
  const config = sandboxSpec({
    hostname: spec.hostname,
    base,
    share: shareDir(dir),
    volumes: volumesDir(dir),
    drives: (home.drives ?? []).filter(({ fileSystem }) => fileSystem === undefined),
    emptyRoot: join(dir, names.root),
    namespace: tap,
    vcpus: spec.vcpus,
    memoryMib: spec.memoryMib,
    diskMib: spec.diskMib,
    cgroup: cgroup === undefined ? undefined : isolation.cgroups?.pathOf(home.vmId),
  })
  await writeFile(join(dir, names.bundle, 'config.json'), JSON.stringify(config), { mode: 0o600 })
}

/** Runs runsc to start the sandbox. @returns the process id of the sandbox, which outlives this call and the agent */
async function spawnSandbox(
  plan: SandboxStart,
  id: string,
  cgroup: string | undefined,
  console: SandboxConsole,
  limit: AbortSignal,
): Promise<number> {
  const { home, checkpoint, waits } = plan
  const pidFile = join(home.dir, names.pid)
  await rm(pidFile, { force: true })
  const common = ['-bundle', join(home.dir, names.bundle), '-pid-file', pidFile]
  const verb = waits
    ? [anyPaths, 'create', ...common, id]
    : checkpoint === undefined
      ? ['run', '-detach', ...common, id]
      : [...restoreVerb(checkpoint), ...common, id]
  await callRunsc(plan, verb, cgroup, console, limit)
  return Number((await readFile(pidFile, 'utf8')).trim())
}

/**
 * Option that skips the comparison of a checkpoint's specification with that of the sandbox that restores it, because
 * their paths differ. `create` needs this option, too, for a sandbox whose checkpoint arrives later.
 */
const anyPaths = '--restore-spec-validation=ignore'

const restoreVerb = (checkpoint: string) => [anyPaths, 'restore', '-detach', '-background', '-image-path', checkpoint]

/**
 * Restores a checkpoint from another host in a sandbox that was created without a guest (`SandboxStart.waits`).
 * @param files the init and configuration that the source sent, because its guest has these files open
 */
export async function restoreArrived(
  plan: SandboxStart,
  { id, console, cgroup }: Pick<Sandbox, 'id' | 'console' | 'cgroup'>,
  checkpoint: string,
  files: { readonly init: string; readonly config: string },
): Promise<void> {
  await fillShare(plan.home.dir, files)
  await callRunsc(plan, [...restoreVerb(checkpoint), id], cgroup, console, AbortSignal.timeout(plan.limitMs))
}

/** Runs a runsc command that starts a sandbox with the pipes as stdio. @throws Error with the console's last line */
async function callRunsc(
  { runsc, home, isolation, launcher, widener }: SandboxStart,
  args: readonly string[],
  cgroup: string | undefined,
  console: SandboxConsole,
  limit: AbortSignal,
): Promise<void> {
  const { dir, spec } = home
  const overlay = `--overlay2=root:dir=${join(dir, names.overlay)},size=${spec.diskMib}m`
  const own = [overlay, ...(cgroup === undefined ? ['--ignore-cgroups'] : [])]
  const command = {
    program: runsc.program,
    args: [...runsc.options, ...own, ...args],
    cwd: dir,
    env: childEnv('runsc'),
  }
  // Keep the pipes open until runsc has inherited them: the kernel frees a pipe, and its enlarged buffer, when the last
  // descriptor is closed.
  const stdio = await openStdio(dir)
  try {
    if (widener !== undefined) await widenPipes(dir, widener, launcher.run).catch(() => undefined)
    const pipes = pipesIn(dir)
    const streams = { stdin: pipes.in, stdout: pipes.out, errorFile: pipes.console }
    const { pid, ended } = await (launcher.start
      ? launcher.start({ ...command, ...streams, ...(cgroup === undefined ? {} : { cgroup }) })
      : spawnRunsc(command, stdio))
    if (!launcher.start && cgroup !== undefined) await isolation.cgroups?.enter(home.vmId, pid).catch(() => undefined)
    const how = await abortable(ended, limit).catch((error: unknown) => {
      kill(pid)
      throw error
    })
    if (how !== 0) throw new Error(`runsc ended (${how}): ${lastLine(console.tail())}`)
  } finally {
    for (const handle of stdio) await handle.close()
  }
}

/** Starts runsc from the agent itself, for agents without the launcher process that usually starts programs. */
async function spawnRunsc(
  { program, args, cwd, env }: Pick<Lasting, 'program' | 'args' | 'cwd' | 'env'>,
  stdio: readonly FileHandle[],
): Promise<LastingProcess> {
  const child = spawn(program, args, { cwd, env, detached: true, stdio: stdio.map(({ fd }) => fd) })
  const ended = once(child, 'exit').then(([code, signal]) => code ?? signal)
  ended.catch(() => undefined)
  await once(child, 'spawn')
  return { pid: child.pid ?? 0, ended }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (!hasCode(error, 'ESRCH')) throw error
  }
}

const lastLine = (text: string) => text.split('\n').at(-1) || 'no message'
