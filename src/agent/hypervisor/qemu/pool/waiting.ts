/** One QEMU that waits for its VM with everything loaded (waiting.c). */
import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { abortable } from '../../../../lib/abortable.ts'
import { childEnv } from '../../../../lib/child-env.ts'
import { identifyProcess, type ProcessIdentity } from '../../../../lib/process-identity.ts'
import { listenIn } from '../../../../lib/short-socket.ts'
import type { Launcher } from '../../../launcher/launcher.ts'
import { framed, i32At, variablesOf } from '../../../launcher/wire.ts'
import { tapFd } from '../../netless.ts'
import { endOf, endProcess, errorFile, type VmmProcess } from '../../process.ts'
import { privateMemoryLibrary } from '../private-memory.ts'
import { preloadLibrary } from '../preload.ts'

export interface WaitingStart {
  /** What is started, and what `ps` shows until it has a VM. */
  readonly program: string
  readonly launcher: Launcher
  readonly cacheDir: string
  /** A private directory, for a socket and an error file of a moment. */
  readonly dir: string
  /** In a network namespace of its own; it can then open a tap of the host's. */
  readonly apart: boolean
  /** Directory of the cgroup that it waits in. */
  readonly cgroup?: string
}

/** What it becomes. */
export interface VmStart {
  /** The VM's directory. */
  readonly dir: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** Only for one that is apart; its fd is `tapFd`. */
  readonly tap?: string
}

export interface WaitingVmm {
  /** The VM's, too, once it is one. */
  readonly identity: ProcessIdentity
  /** Rejects when it ends, whatever it is by then. */
  readonly ended: Promise<never>
  /** Once. It is the VM's as soon as this resolves; when it does not, no process is left. @throws Error */
  become(start: VmStart): Promise<VmmProcess>
  /** Idempotent. */
  end(): Promise<void>
}

/** It has nothing to do but a few system calls: whoever takes longer is not well. */
const handOverMs = 1_000

/**
 * Starts one and waits until it waits, some 30 ms.
 * @throws Error when it ends before, or the signal's reason; no process is left
 */
export async function startWaiting(
  { program, launcher, cacheDir, dir, apart, cgroup }: WaitingStart,
  signal: AbortSignal,
): Promise<WaitingVmm> {
  if (launcher.start === undefined) throw new Error('there is no launcher: install musl-tools or gcc')
  const libraries = [
    await preloadLibrary(cacheDir, new URL('./waiting.c', import.meta.url)),
    await privateMemoryLibrary(cacheDir),
  ]
  const name = `waits-${randomBytes(4).toString('hex')}`
  await using door = await openDoor(dir, name)
  const env = { LD_PRELOAD: libraries.join(':'), MOTE_WAITS_AT: name, ...(apart ? { MOTE_WAITS_APART: '1' } : {}) }
  const started = await launcher.start({
    program,
    args: ['waits for a VM'],
    cwd: dir,
    env: childEnv(program, { own: env }),
    errorFile: join(dir, errorFile),
    ...(cgroup === undefined ? {} : { cgroup }),
  })
  const ended = endOf('a waiting QEMU', dir, started)
  const identity = identifyProcess(started.pid) ?? (await ended)
  try {
    const agent = await abortable(Promise.race([door.caller, ended]), signal)
    const link = linkOf(agent)
    await abortable(Promise.race([link.answer(), ended]), signal)
    return waitingVmm({ program, identity, link, ended, endOfVm: vmDir => endOf('QEMU', vmDir, started) })
  } catch (error) {
    await endProcess({ process: identity })
    throw error
  }
}

interface Parts {
  readonly program: string
  readonly identity: ProcessIdentity
  readonly link: Link
  readonly ended: Promise<never>
  readonly endOfVm: (dir: string) => Promise<never>
}

function waitingVmm({ program, identity, link, ended, endOfVm }: Parts): WaitingVmm {
  const end = async () => {
    link.close()
    await endProcess({ process: identity })
  }
  return {
    identity,
    ended,
    end,
    async become({ dir, args, env, tap = '' }) {
      const [argv, variables] = [[program, ...args], variablesOf(env)]
      const texts = [dir, join(dir, errorFile), tap, ...argv, ...variables]
      try {
        link.say(framed([argv.length, variables.length, tapFd], texts))
        const errno = await Promise.race([abortable(link.answer(), AbortSignal.timeout(handOverMs)), ended])
        if (errno !== 0) throw new Error(`a waiting QEMU could not take its VM (errno ${errno})`)
      } catch (error) {
        await end()
        throw error
      }
      link.close()
      return { identity, ended: endOfVm(dir) }
    },
  }
}

/** What is said with it: one message there, i32 back. It keeps this process alive only while an answer is waited for. */
interface Link {
  say(bytes: Buffer): void
  /** The next. Rejects when the process has hung up. */
  answer(): Promise<number>
  close(): void
}

function linkOf(socket: Socket): Link {
  let rest: Buffer = Buffer.alloc(0)
  let waiter: PromiseWithResolvers<number> | undefined
  const settle = () => {
    if (rest.length >= 4 && waiter) {
      socket.unref()
      waiter.resolve(i32At(rest, 0))
      ;[rest, waiter] = [rest.subarray(4), undefined]
    } else if (socket.readableEnded || socket.destroyed) waiter?.reject(new Error('a waiting QEMU has hung up'))
  }
  socket.on('error', () => undefined) // its close follows
  socket.on('data', part => {
    rest = Buffer.concat([rest, part])
    settle()
  })
  socket.on('end', settle).on('close', settle)
  return {
    say: bytes => void socket.write(bytes),
    answer() {
      socket.ref()
      waiter = Promise.withResolvers()
      waiter.promise.catch(() => undefined)
      const { promise } = waiter
      settle()
      return promise
    },
    close: () => void socket.destroy(),
  }
}

/** A socket for one caller, who has found it in this private directory. */
async function openDoor(dir: string, name: string): Promise<{ readonly caller: Promise<Socket> } & AsyncDisposable> {
  const caller = Promise.withResolvers<Socket>()
  const server = createServer(caller.resolve)
  await listenIn(server, dir, name)
  return {
    caller: caller.promise,
    async [Symbol.asyncDispose]() {
      server.close()
      await rm(join(dir, name), { force: true })
    },
  }
}
