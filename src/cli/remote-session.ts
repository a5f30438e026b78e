/** Connects a VM session with the terminal or pipes, the signals and the exit code of this process. */
import { spawnSync } from 'node:child_process'
import type { ReadStream } from 'node:tty'
import { connectSession, type SessionConnection, type SessionResult } from '../client/index.ts'
import { childEnv } from '../lib/child-env.ts'
import { raw, rawBytes } from './terminal.ts'
import type { Call } from './verb.ts'

export interface RemoteSession {
  readonly app_name: string
  readonly job_id: string
  readonly session_id: string
  readonly tty: boolean
  /** Whether to pass this process's standard input to the session. */
  readonly stdin: boolean
}

const ctrlC = 3
/** Maximum number of bytes that are read but not yet sent, so that reading and sending overlap. */
const readAheadBytes = 1 << 19

/** Runs until the program has ended, and returns the exit code as shells do: 128 plus the number of a signal. */
export async function runRemote(call: Call, session: RemoteSession): Promise<number> {
  const { app_name, job_id, session_id } = session
  const place = { app_name, job_id, session_id }
  const words = [app_name, job_id, session_id].map(encodeURIComponent)
  const note = (text: string) => raw('stderr', noteFor(session.tty, text))
  let isWaiting = false
  const connection = connectSession({
    baseUrl: call.url,
    path: `/v1/apps/${words[0]}/deployments/${words[1]}/sessions/${words[2]}/attach`,
    project: call.project,
    token: () => call.token,
    state: async () => resultOf(await call.client.getVmSession(place)),
    onOutput: rawBytes,
    onLost: (_, bytes) => note(`(${bytes} bytes of output are missing: the VM retains the last 256 KiB)`),
    onState: state => {
      if (state === 'waiting' && !isWaiting) note('(The connection was lost. Connecting again; Ctrl-C gives up.)')
      isWaiting = state === 'waiting'
    },
  })
  const kill = () => call.client.closeVmSession(place).catch(() => undefined)
  using _signals = passSignals(call.signal, connection, kill)
  using _input = session.stdin ? passInput(connection, session.tty, () => isWaiting) : nothing
  return codeOf(await connection.ended)
}

/**
 * Formats a message of this client as a separate line. In raw mode, this needs carriage returns, including one before
 * the text.
 */
export const noteFor = (tty: boolean, text: string): string => (tty ? `\r\n${text}\r\n` : `${text}\n`)

const nothing: Disposable = { [Symbol.dispose]: () => undefined }

function resultOf(found: {
  readonly status: 'running' | 'exited' | 'signaled' | 'lost'
  readonly exit_code: number | null
  readonly signal: number | null
}): SessionResult | undefined {
  return found.status === 'running' ? undefined : { reason: found.status, code: found.exit_code ?? found.signal }
}

function codeOf({ reason, code }: SessionResult): number {
  if (reason === 'lost') throw new Error('The program has ended together with its VM.')
  return reason === 'exited' ? (code ?? 1) : 128 + (code ?? 0)
}

/** The first Ctrl-C interrupts the program; the second one, or closing the terminal, kills it. */
function passSignals(
  interrupted: AbortSignal,
  connection: SessionConnection,
  kill: () => Promise<unknown>,
): Disposable {
  const killed = () => void kill().finally(() => connection.detach())
  const first = () => {
    connection.signal('INT')
    process.on('SIGINT', killed)
  }
  interrupted.addEventListener('abort', first)
  for (const name of ['SIGTERM', 'SIGHUP'] as const) process.once(name, killed)
  return {
    [Symbol.dispose]() {
      interrupted.removeEventListener('abort', first)
      for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.off(name, killed)
    },
  }
}

/**
 * Turns off the terminal's conversion of LF to CR LF, which Node's raw mode leaves on and which breaks programs that
 * move the cursor down with LF. Without stty, only such programs look wrong. Leaving the raw mode restores the setting.
 */
function passOutputUnchanged(): void {
  spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'], env: childEnv('stty') })
}

function passInput(connection: SessionConnection, tty: boolean, isWaiting: () => boolean): Disposable {
  const { stdin, stdout } = process
  const isTerminal = tty && stdin.isTTY
  const resize = () => connection.resize(stdout.rows || 24, stdout.columns || 80)
  if (isTerminal) {
    stdin.setRawMode(true)
    passOutputUnchanged()
    resize()
    stdout.on('resize', resize)
  }
  let waitingBytes = 0
  const onData = (data: Buffer) => {
    // In raw mode, the terminal passes Ctrl-C to the program as a key. While the connection is lost, Ctrl-C ends this
    // client.
    if (isTerminal && isWaiting() && data.includes(ctrlC)) return connection.detach()
    waitingBytes += data.length
    if (waitingBytes > readAheadBytes) stdin.pause()
    connection.write(data).then(
      () => {
        waitingBytes -= data.length
        if (waitingBytes <= readAheadBytes) stdin.resume()
      },
      () => undefined,
    )
  }
  const onEnd = () => connection.closeInput()
  stdin.on('data', onData).on('end', onEnd)
  return {
    [Symbol.dispose]() {
      if (isTerminal) stdin.setRawMode(false)
      stdout.off('resize', resize)
      stdin.off('data', onData).off('end', onEnd)
      stdin.pause()
      // Standard input may be a pipe whose writer stays open, which must not keep this process alive.
      ;(stdin as Partial<Pick<ReadStream, 'unref'>>).unref?.()
    },
  }
}
