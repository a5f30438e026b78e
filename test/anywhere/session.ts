/**
 * Runs commands in a test system as its user would, with the user's home, environment and working directory, and logs
 * them with their output.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Room } from './room.ts'

export interface SessionOptions {
  readonly room: Room
  readonly user: string
  readonly home: string
  readonly env: Readonly<Record<string, string>>
  /** Command prefix of each program that runs as the user, which applies the test system's limits, such as a umask. */
  readonly through?: readonly string[]
  write(text: string): void
}

export interface Ran {
  readonly code: number | null
  /** Standard output and standard error, as on a terminal. */
  readonly text: string
}

export interface CommandOptions {
  readonly cwd?: string
  readonly signal?: AbortSignal
  /** Text to write to standard input, once, after the output matches. */
  readonly types?: readonly [after: RegExp, text: string]
}

/** A program that runs in the background until it exits or is interrupted. */
export interface Running {
  /** Resolves with the match once the output matches. @throws Error if the program exits before */
  printed(pattern: RegExp, signal: AbortSignal): Promise<RegExpExecArray>
  /** Sends Ctrl-C. */
  interrupt(): void
  /** Resolves once the program has exited, and no process holds its output open any more. */
  ended(signal: AbortSignal): Promise<Ran>
}

export interface Session {
  run(argv: readonly string[], options?: CommandOptions): Promise<Ran>
  start(argv: readonly string[], options?: CommandOptions): Running
  /** The same session with root as the user. */
  readonly asRoot: Pick<Session, 'run'>
}

/** Returns the PATH that Debian's /etc/profile sets. */
const searchPath = (user: string) =>
  user === 'root' ? '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' : '/usr/local/bin:/usr/bin:/bin'

export function openSession(options: SessionOptions): Session {
  const { room, user, home, env, write, through = [] } = options
  const command = (argv: readonly string[], cwd: string, as: string) => {
    const own = {
      PATH: searchPath(as),
      HOME: as === 'root' ? '/root' : home,
      USER: as,
      LOGNAME: as,
      SHELL: '/bin/sh',
      ...env,
    }
    const variables = Object.entries(own)
      .filter(([, value]) => value !== '')
      .map(([name, value]) => `${name}=${value}`)
    const login = as === 'root' ? [] : ['setpriv', `--reuid=${as}`, `--regid=${as}`, '--init-groups']
    return room.inside(['env', '-i', '-C', cwd, ...variables, ...login, ...(as === user ? through : []), ...argv])
  }
  const begin = (argv: readonly string[], as: string, { cwd = home, types }: CommandOptions) => {
    write(`\n${as === 'root' ? '#' : '$'} ${argv.join(' ')}\n`)
    const [program, ...args] = command(argv, cwd, as)
    // The program runs in a process group of its own, to which Ctrl-C can be sent.
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], detached: true })
    return watch(child, write, types)
  }
  const runAs = async (as: string, argv: readonly string[], given: CommandOptions = {}): Promise<Ran> => {
    const { child, text } = begin(argv, as, given)
    if (given.types === undefined) child.stdin?.end()
    const code = await untilClosed(child, given.signal)
    return { code, text: text() }
  }
  return {
    run: (argv, given) => runAs(user, argv, given),
    asRoot: { run: (argv, given) => runAs('root', argv, given) },
    start: (argv, given = {}) => running(begin(argv, user, given)),
  }
}

interface Watched {
  readonly child: ChildProcess
  text(): string
  onText(listener: () => void): void
}

function watch(child: ChildProcess, write: (text: string) => void, types: CommandOptions['types']): Watched {
  let all = ''
  let typed = false
  const listeners: (() => void)[] = []
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => {
      all += text
      write(text)
      if (types?.[0].test(all) && !typed) {
        typed = true
        child.stdin?.write(types[1])
      }
      for (const listener of listeners) listener()
    })
  child.stdin?.on('error', () => undefined) // EPIPE: the program may exit without reading its input.
  return { child, text: () => all, onText: listener => void listeners.push(listener) }
}

async function untilClosed(child: ChildProcess, signal?: AbortSignal): Promise<number | null> {
  const closed = once(child, 'close')
  try {
    const [code] = await (signal === undefined ? closed : unlessAborted(closed, signal))
    return code
  } catch (cause) {
    group(child, 'SIGKILL')
    throw cause
  }
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const give = () => aborted.reject(signal.reason)
  if (signal.aborted) give()
  signal.addEventListener('abort', give)
  try {
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', give)
  }
}

function running({ child, text, onText }: Watched): Running {
  const closed = once(child, 'close')
  return {
    async printed(pattern, signal) {
      const found = Promise.withResolvers<RegExpExecArray>()
      const look = () => {
        const match = pattern.exec(text())
        if (match) found.resolve(match)
      }
      onText(look)
      look()
      const early = closed.then(([code]) => Promise.reject(new Error(`it ended with ${code}`)))
      return unlessAborted(Promise.race([found.promise, early]), signal)
    },
    interrupt: () => group(child, 'SIGINT'),
    async ended(signal) {
      const [code] = await unlessAborted(closed, signal)
      return { code, text: text() }
    },
  }
}

function group(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    process.kill(-(child.pid ?? 0), signal)
  } catch {
    // The process group is gone, because all of its processes have exited.
  }
}
