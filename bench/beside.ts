/**
 * Starts peers: third-party programs that the product is compared with. Each peer has its own files and socket, which
 * are removed at the end of the benchmark.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasProgram } from '../src/lib/programs.ts'
import { startReaper } from '../test/support/reaper.ts'
import { until } from '../test/support/wait.ts'
import type { Report } from './benchmark.ts'

/** Starts a peer. If it cannot start, the report names the reason and the benchmark continues without it. */
export async function beside<P extends AsyncDisposable>(
  report: Report,
  cleanup: AsyncDisposableStack,
  name: string,
  start: () => Promise<P>,
): Promise<P | undefined> {
  try {
    return cleanup.use(await start())
  } catch (error) {
    report.absent(name, error instanceof Error ? error.message : String(error))
    return undefined
  }
}

/** A program of another project that a benchmark measures beside Mote in the same run. */
export interface PeerProgram {
  /** Names of programs that must be installed to run the peer. */
  readonly needs: readonly string[]
  readonly asRoot?: boolean
  /** Creates files that the program needs at its start. */
  readonly prepare?: (dir: string) => Promise<void>
  readonly command: (dir: string) => readonly string[]
  /** Returns a promise that rejects, or resolves with false, until the peer responds. */
  readonly ready: (dir: string) => Promise<unknown>
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

const lastLine = (text: string) => text.trim().split('\n').at(-1)?.slice(0, 300) ?? ''

/**
 * Runs the program in its own directory until `cleanup` ends, or this process is killed.
 * @returns the directory
 * @throws Error with the reason if it does not run
 */
export async function startPeer(cleanup: AsyncDisposableStack, peer: PeerProgram): Promise<string> {
  for (const program of peer.needs)
    if (!(await hasProgram(program))) throw new Error(`${program} is not installed: npm run bench -- --install-peers`)
  if (peer.asRoot === true && process.getuid?.() !== 0) throw new Error('it needs root')
  const reaper = startReaper()
  cleanup.defer(() => reaper.finish())
  const dir = await mkdtemp(join(tmpdir(), 'mote-bench-peer-'))
  reaper.removeAtEnd(dir)
  await peer.prepare?.(dir)
  const [program = '', ...args] = peer.command(dir)
  const child = spawn(program, args, { cwd: dir, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-2000)))
  const { pid = 0 } = child
  reaper.killAtEnd(pid)
  const ended = once(child, 'exit')
  cleanup.defer(async () => {
    child.kill('SIGKILL')
    await ended
    reaper.forget(pid)
  })
  const isReady = () =>
    peer.ready(dir).then(
      answer => answer !== false,
      () => false,
    )
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null
  await until(async () => hasEnded() || (await isReady()), {
    what: 'it answers',
    timeoutMs: 20_000,
    everyMs: 50,
  }).catch(() => {
    throw new Error(`it did not answer within 20 s: ${lastLine(said)}`)
  })
  if (hasEnded()) throw new Error(`it did not start: ${lastLine(said)}`)
  return dir
}

/**
 * Returns the command that runs a shell script in new namespaces, with `dir` as $1: its mounts and background
 * processes end with the script. The shell remains process 1 of the PID namespace to reap orphaned processes, which
 * would otherwise look alive to the peer.
 */
export const apart = (script: string, dir: string): readonly string[] => [
  ...['unshare', '--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc'],
  ...['--', 'sh', '-c', `${script}; exit $?`, 'sh', dir],
]
