/**
 * Starts QEMU and the agent's short-lived programs (nft, ip, cp) through a small helper process (launcher.c). Node.js
 * starts a program with fork(2), which copies the agent's page tables and blocks the agent meanwhile: 2 ms with 50 MiB
 * of memory, 9 ms with 150, 19 ms with 250. Waking a VM took ten such forks. The helper takes 0.2 ms per program and
 * does not block the agent.
 */
import { spawn } from 'node:child_process'
import { Socket } from 'node:net'
import { constants } from 'node:os'
import { getSystemErrorName } from 'node:util'
import { childEnv } from '../../lib/child-env.ts'
import { CommandError, run } from '../../lib/exec.ts'
import { nativeProgram } from '../guest/native.ts'
import { type Answer, answersOf, type Request, requestBytes } from './wire.ts'

/** Runs a program and returns its output, as `run` of src/lib/exec.ts does and with the same errors. */
export type RunCommand = (
  program: string,
  args: readonly string[],
  options?: { readonly input?: string },
) => Promise<string>

/** A program to start that outlives the agent. */
export interface Lasting {
  readonly program: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** File for the program's stderr, and for its stdout unless `stdout` is set. An existing file is replaced. */
  readonly errorFile: string
  /** Files or named pipes, opened for reading and writing; default: /dev/null and `errorFile`. */
  readonly stdin?: string
  readonly stdout?: string
  /** Directory of the cgroup in which the program starts. */
  readonly cgroup?: string
}

export interface LastingProcess {
  readonly pid: number
  /** Resolves with the program's exit code, or the signal that killed it. Rejects if the launcher exits first. */
  readonly ended: Promise<number | string>
}

export interface Launcher {
  readonly run: RunCommand
  /** Starts a program in its own session. @throws Error with a code, such as ENOENT if it is not installed */
  readonly start: ((program: Lasting) => Promise<LastingProcess>) | undefined
  /** Stops the launcher's helper process. Programs that it has started keep running. */
  close(): void
}

/** Starts programs directly from the agent, on hosts without a C compiler. */
export const noLauncher: Launcher = { run, start: undefined, close: () => undefined }

/**
 * Compiles the helper program. Its process starts with the first request. If the process dies, pending requests fail
 * and the next request starts it again.
 * @throws Error if no C compiler is installed
 */
export async function openLauncher(cacheDir: string): Promise<Launcher> {
  const program = await nativeProgram(cacheDir, new URL('./launcher.c', import.meta.url))
  let helper: Helper | undefined
  const ask = (request: Omit<Request, 'id'>) => {
    helper ??= startHelper(program, () => (helper = undefined))
    return helper.ask(request)
  }
  return {
    async run(name, args, { input = '' } = {}) {
      const { code, stdout, stderr } = await ask({ argv: [name, ...args], env: childEnv(name), input }).ended
      if (code === 0) return stdout
      throw new CommandError(name, code, stderr)
    },
    async start({ program: name, args, ...rest }) {
      const { started, ended } = ask({ ...rest, argv: [name, ...args], input: '' })
      return { pid: await started, ended: ended.then(({ code, signal }) => code ?? signalName(signal)) }
    },
    close: () => helper?.close(),
  }
}

type Ended = Extract<Answer, { is: 'ended' }>

interface Asked {
  readonly started: Promise<number>
  readonly ended: Promise<Ended>
}

interface Helper {
  ask(request: Omit<Request, 'id'>): Asked
  close(): void
}

interface Waiting {
  readonly name: string
  readonly lasts: boolean
  readonly started: PromiseWithResolvers<number>
  readonly ended: PromiseWithResolvers<Ended>
}

function startHelper(program: string, onGone: () => void): Helper {
  // Detached, so that Ctrl-C in a terminal does not end the helper.
  const child = spawn(program, [], { detached: true, stdio: ['pipe', 'pipe', 'ignore'], env: childEnv(program) })
  const waiting = new Map<number, Waiting>()
  let lastId = 0
  // Short-lived programs keep the agent's process alive until they end; programs that outlive the agent do not.
  const hold = () => {
    const isWaitedFor = [...waiting.values()].some(({ lasts }) => !lasts)
    for (const part of [child, child.stdin, child.stdout]) {
      if (part !== child && !(part instanceof Socket)) continue
      if (isWaitedFor) part.ref()
      else part.unref()
    }
  }
  const gone = (error: Error) => {
    onGone()
    for (const one of waiting.values()) fail(one, error)
    waiting.clear()
  }
  child.once('error', gone)
  child.once('exit', () =>
    gone(new Error('the program launcher has ended: retry the operation, which starts a new one')),
  )
  child.stdin.on('error', () => undefined) // ignore errors of stdin: the exit event reports the helper's end
  child.stdout.on(
    'data',
    answersOf(answer => {
      const one = waiting.get(answer.id)
      if (!one) return
      if (answer.is !== 'started') waiting.delete(answer.id)
      settle(one, answer)
      hold()
    }),
  )
  hold()
  return {
    ask(request) {
      const id = ++lastId
      const [started, ended] = [Promise.withResolvers<number>(), Promise.withResolvers<Ended>()]
      // A caller awaits only one of these two promises, so ignore an unhandled rejection of the other.
      for (const { promise } of [started, ended]) promise.catch(() => undefined)
      const bytes = requestBytes({ ...request, id })
      waiting.set(id, { name: request.argv[0] ?? '', lasts: request.errorFile !== undefined, started, ended })
      child.stdin.write(bytes)
      hold()
      return { started: started.promise, ended: ended.promise }
    },
    close: () => child.stdin.end(),
  }
}

function fail({ started, ended }: Waiting, error: Error): void {
  started.reject(error)
  ended.reject(error)
}

function settle(one: Waiting, answer: Answer): void {
  if (answer.is === 'started') one.started.resolve(answer.pid)
  else if (answer.is === 'ended') one.ended.resolve(answer)
  else {
    const code = getSystemErrorName(-answer.errno)
    fail(one, Object.assign(new Error(`cannot start ${one.name}: ${code}`), { code }))
  }
}

function signalName(number: number): string {
  return Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? `signal ${number}`
}
