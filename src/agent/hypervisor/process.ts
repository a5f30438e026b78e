import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasCode } from '../../lib/files.ts'
import { identifyProcess, isRunning, type ProcessIdentity } from '../../lib/process-identity.ts'
import type { LastingProcess, Launcher } from '../launcher/launcher.ts'

/** Name of the file in the VM's directory with the VMM's standard output and error. */
export const errorFile = 'vmm.err'

export interface VmmProcess {
  readonly identity: ProcessIdentity
  /** Rejects when the process exits; never resolves. */
  readonly ended: Promise<never>
}

export interface VmmCommand {
  /** Name of the VMM in error messages. */
  readonly name: string
  readonly program: string
  readonly args: readonly string[]
  /** The VM's directory. */
  readonly dir: string
  /** Working directory of the VMM; default: the VM's directory. */
  readonly cwd?: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** The user to which the VMM drops root's privileges. */
  readonly user?: { readonly uid: number; readonly gid: number }
  /** Network namespace of the VMM; default: `host`. */
  readonly network?: VmmNetwork
}

/** The network namespace of a process. `own` is an empty namespace that exists as long as the process. */
export type VmmNetwork = 'host' | 'own'

/**
 * Starts a VMM in its own session, so that it outlives the agent.
 * @throws Error when the program is not installed.
 */
export async function spawnVmm(command: VmmCommand): Promise<VmmProcess> {
  const { name, program, args, dir, cwd = dir, env, user } = command.network === 'own' ? apart(command) : command
  const errors = openSync(join(dir, errorFile), 'w', 0o600)
  try {
    const child = spawn(program, args, {
      cwd,
      env: { ...env },
      detached: true,
      stdio: ['ignore', errors, errors],
      ...(user ? { uid: user.uid, gid: user.gid } : {}),
    })
    const started = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<never>()
    ended.promise.catch(() => undefined)
    child.once('spawn', started.resolve)
    child.once('error', error => {
      started.reject(error)
      ended.reject(error)
    })
    child.once('exit', (code, signal) => {
      lastError(dir).then(text => ended.reject(new Error(`${name} ended (${code ?? signal}): ${text}`)), ended.reject)
    })
    await started.promise
    child.unref()
    const identity = child.pid === undefined ? undefined : identifyProcess(child.pid)
    return { identity: identity ?? (await ended.promise), ended: ended.promise }
  } finally {
    closeSync(errors)
  }
}

/**
 * Starts a VMM through the launcher if the agent has one, otherwise with `spawnVmm`.
 * @param cgroup directory of the cgroup that the VMM starts in; without a launcher, the caller moves it there
 */
export async function launchVmm(
  { start }: Launcher,
  { name, program, args, dir, env }: Omit<VmmCommand, 'cwd' | 'user' | 'network'>,
  cgroup?: string,
): Promise<VmmProcess> {
  if (start === undefined) return spawnVmm({ name, program, args, dir, env })
  const started = await start({
    program,
    args,
    cwd: dir,
    env,
    errorFile: join(dir, errorFile),
    ...(cgroup ? { cgroup } : {}),
  })
  const ended = endOf(name, dir, started)
  return { identity: identifyProcess(started.pid) ?? (await ended), ended }
}

/** Returns a promise that rejects when the process exits, with the last lines of its error file. */
export function endOf(name: string, dir: string, { ended }: Pick<LastingProcess, 'ended'>): Promise<never> {
  const reported = ended.then(async how => {
    throw new Error(`${name} ended (${how}): ${await lastError(dir)}`)
  })
  reported.catch(() => undefined)
  return reported
}

/**
 * Wraps the command with unshare(1), which creates the network namespace as root, drops its privileges and executes the
 * program, all in one process.
 */
function apart({ user, program, args, ...rest }: VmmCommand): VmmCommand {
  const as = user ? ['--setgid', String(user.gid), '--setuid', String(user.uid)] : []
  return { ...rest, program: 'unshare', args: ['--net', ...as, '--', program, ...args] }
}

const errorChars = 2048

async function lastError(dir: string): Promise<string> {
  const file = await open(join(dir, errorFile))
  try {
    const { size } = await file.stat()
    const { buffer, bytesRead } = await file.read(
      Buffer.alloc(errorChars),
      0,
      errorChars,
      Math.max(0, size - errorChars),
    )
    return buffer.toString('utf8', 0, bytesRead).trim() || 'no message'
  } finally {
    await file.close()
  }
}

/** Kills the process if its pid still belongs to it, and waits until it has exited. */
export async function endProcess({ process: identity }: { readonly process: ProcessIdentity }): Promise<void> {
  try {
    if (isRunning(identity)) process.kill(identity.pid, 'SIGKILL')
  } catch (error) {
    if (!hasCode(error, 'ESRCH')) throw error // the process exited in the meantime
  }
  await untilGone({ process: identity })
}

/** Waits until the process is gone: it closes its control connection a moment before it has exited. */
export async function untilGone({ process: identity }: { readonly process: ProcessIdentity }): Promise<void> {
  while (isRunning(identity)) await sleep(3)
}
