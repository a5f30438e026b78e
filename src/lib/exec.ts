import { spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import { childEnv } from './child-env.ts'

export interface RunOptions {
  readonly cwd?: string
  /** Input for the program's stdin. */
  readonly input?: string | Buffer
  /** Environment variables in addition to those that every program gets (child-env.ts). */
  readonly env?: Readonly<Record<string, string>>
  /**
   * Whether the program accesses the network, so that it gets the host's proxy and certificates; default: depends on
   * its name.
   */
  readonly network?: boolean
  readonly timeoutMs?: number
  /** Maximum number of bytes of stdout, and of stderr, that are kept, from the end. Default: 64 MiB. */
  readonly outputBytes?: number
  readonly signal?: AbortSignal
}

export class CommandError extends Error {
  readonly exitCode: number | null
  readonly stderr: string
  constructor(program: string, exitCode: number | null, stderr: string, options?: ErrorOptions) {
    super(`${program} ${exitCode === null ? 'was killed' : `ended with ${exitCode}`}: ${lastLines(stderr)}`, options)
    this.name = 'CommandError'
    this.exitCode = exitCode
    this.stderr = stderr
  }
}

/** Default limit on the output, which is enough for nft's list of the rules for ten thousand VMs. */
const mostOutputBytes = 64 << 20

/**
 * Runs a program without a shell and returns its stdout. Errors contain the program's name, never its arguments.
 * @throws CommandError when its exit code is not 0, AbortError, or ENOENT when it is not installed
 */
export function run(program: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const child = spawn(program, args, {
    stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    env: childEnv(program, { network: options.network, own: options.env }),
    killSignal: 'SIGKILL',
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  })
  // Not spawn's own option `timeout`: if the program is not installed, Node does not clear that timer, which then keeps
  // the process alive until it ends.
  const limit = options.timeoutMs === undefined ? undefined : setTimeout(() => child.kill('SIGKILL'), options.timeoutMs)
  child.once('exit', () => clearTimeout(limit)).once('error', () => clearTimeout(limit))
  const maxBytes = options.outputBytes ?? mostOutputBytes
  const [stdout, stderr] = [tailOf(child.stdout, maxBytes), tailOf(child.stderr, maxBytes)]
  child.on('error', reject)
  child.on('close', code => {
    if (code === 0) resolve(stdout())
    else reject(new CommandError(program, code, stderr()))
  })
  child.stdin?.on('error', () => undefined) // The program may end without reading its input; ignore that error.
  child.stdin?.end(options.input)
  return promise
}

/** Collects the last `maxBytes` of a stream by dropping whole chunks, so that each chunk is handled once. */
function tailOf(stream: Readable | null, maxBytes: number): () => string {
  const parts: Buffer[] = []
  let bytes = 0
  stream?.on('data', (part: Buffer) => {
    parts.push(part)
    bytes += part.length
    while (bytes - (parts[0]?.length ?? 0) >= maxBytes) bytes -= parts.shift()?.length ?? 0
  })
  return () => Buffer.concat(parts).subarray(-maxBytes).toString('utf8')
}

function lastLines(text: string): string {
  return text.trim().split('\n').slice(-4).join(' | ').slice(-600) || 'no message'
}
