/** Channels of an SSH connection to an app: programs, file transfer (SFTP), and ports and sockets of its VM. */
import type { Logger } from 'pino'
import type ssh2 from 'ssh2'
import { type Bus, BusError } from '../../bus/bus.ts'
import { decodeOutput, type SessionOutput, SocketPath } from '../../contract/agent.ts'
import {
  encodeShellInput,
  type ShellAsk,
  ShellAskAnswer,
  type ShellInput,
  type ShellOpen,
  ShellOpenAnswer,
  shellSubjects,
} from '../../contract/shell.ts'
import { giveBytes } from '../../lib/buffer-pool.ts'
import { Value } from 'typebox/value'
import { signalNumber } from './signals.ts'
import { ShellStream } from './shell-stream.ts'

/** Control's operations for sessions in VMs, as the bastion calls them. */
export interface ShellControl {
  open(desired: ShellOpen): Promise<ShellOpenAnswer>
  /**
   * Sends a request about a session. A `read` request for bytes returns bytes, all others a `ShellAskAnswer`.
   * @throws BusError if no response arrives
   */
  ask(request: ShellAsk | ShellInput, signal: AbortSignal): Promise<ShellAskAnswer | SessionOutput>
}

/** Timeout for opening a session. Control waits up to 15 s for the guest. */
const openTimeoutMs = 30_000
/** Timeout for a request about a session. A read waits up to 25 s for output. */
const askTimeoutMs = 45_000
const mostChannels = 32
const mostVariables = 64
const variablePattern = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/
const maxValueLength = 4096
/** Hostnames that refer to the VM itself. The bastion forwards connections to no other hosts. */
const localNames = new Set(['localhost', '127.0.0.1', '::1'])

export const shellControl = (bus: Bus): ShellControl => ({
  open: async desired =>
    Value.Parse(ShellOpenAnswer, await bus.request(shellSubjects.open, desired, { timeoutMs: openTimeoutMs })),
  async ask(request, signal) {
    const message = 'request' in request ? request : encodeShellInput(request)
    const answer = await bus.request(shellSubjects.ask, message, { timeoutMs: askTimeoutMs, signal })
    if (message instanceof Uint8Array) giveBytes(message)
    return answer instanceof Uint8Array ? decodeOutput(answer) : Value.Parse(ShellAskAnswer, answer)
  },
})

export interface Shells {
  /** Handles an SSH channel for a program (`session`, RFC 4254, 6.1). */
  serve(session: ssh2.Session): void
  /** Handles an SSH channel to a TCP port of the VM (`direct-tcpip`, RFC 4254, 7.2). */
  forwardPort(accept: () => ssh2.ServerChannel, reject: () => void, host: string, port: number): void
  /** Handles an SSH channel to a Unix socket of the VM (`direct-streamlocal@openssh.com`, OpenSSH's PROTOCOL, 2.4). */
  forwardSocket(accept: () => ssh2.ServerChannel, reject: () => void, path: string): void
  /** Sends SIGHUP to all programs of the SSH connection. */
  end(): void
}

/** Returns functions that handle the channels of one SSH connection. */
export function shellsOf(control: ShellControl, grant: string, log: Logger): Shells {
  const over = new AbortController()
  let channels = 0
  const run = async (channel: ssh2.ServerChannel, desired: Omit<ShellOpen, 'grant'>, live: LiveTerminal) => {
    const isTerminal = desired.tty !== undefined
    const answer = await openOrReason(control, { grant, ...desired }, log)
    if ('reason' in answer) {
      channel.stderr.write(`${answer.reason}${isTerminal ? '\r\n' : '\n'}`)
      channel.exit(255)
      channel.end()
      return
    }
    const stream = new ShellStream(control, answer, channel, over.signal)
    live.attach(stream)
    await stream.run(log)
  }
  const start = (channel: ssh2.ServerChannel, desired: Omit<ShellOpen, 'grant'>, live: LiveTerminal) => {
    channels++
    // Listen for errors of the channel, which would otherwise crash the process.
    channel.on('error', () => channel.destroy())
    run(channel, desired, live)
      .catch((err: unknown) => {
        log.warn({ err }, 'a session over SSH ended with an error')
        channel.end()
      })
      .finally(() => channels--)
  }
  const forward = (accept: () => ssh2.ServerChannel, reject: () => void, what: ShellOpen['what']) => {
    channels++
    const joined = async () => {
      const answer = await openOrReason(control, { grant, what }, log)
      if ('reason' in answer) return reject()
      const channel = accept()
      channel.on('error', () => channel.destroy())
      await new ShellStream(control, answer, channel, over.signal, 'forwarded').run(log)
    }
    joined()
      .catch((err: unknown) => log.warn({ err }, 'a forwarded connection over SSH ended with an error'))
      .finally(() => channels--)
  }
  return {
    serve(session) {
      const live = liveTerminal()
      let isUsed = false
      const begin = (accept: () => ssh2.ServerChannel, reject: () => void, what: ShellOpen['what']) => {
        if (isUsed || channels >= mostChannels) return reject()
        isUsed = true
        start(accept(), { what, ...live.start() }, live)
      }
      session.on('pty', (accept, _reject, { cols, rows, term }) => {
        live.setTerminal(rows, cols, (term as string | undefined) ?? '')
        accept?.()
      })
      session.on('env', (accept, reject, { key, val }) => (live.setVariable(key, val) ? accept?.() : reject?.()))
      session.on('window-change', (accept, _reject, { cols, rows }) => {
        live.resize(rows, cols)
        accept?.()
      })
      session.on('signal', (accept, _reject, { name }) => {
        live.signal(name)
        accept?.()
      })
      session.on('shell', (accept, reject) => begin(accept, reject, { kind: 'shell' }))
      session.on('exec', (accept, reject, { command }) => {
        if (command === '') reject()
        else begin(accept, reject, { kind: 'command', command })
      })
      session.on('subsystem', (accept, reject, { name }) => {
        if (name === 'sftp') begin(accept, reject, { kind: 'sftp' })
        else reject()
      })
    },
    forwardPort(accept, reject, host, port) {
      if (!localNames.has(host) || port < 1 || port > 65_535 || channels >= mostChannels) reject()
      else forward(accept, reject, { kind: 'port', port })
    },
    forwardSocket(accept, reject, path) {
      if (!Value.Check(SocketPath, path) || channels >= mostChannels) reject()
      else forward(accept, reject, { kind: 'socket', path })
    },
    end: () => over.abort(),
  }
}

async function openOrReason(control: ShellControl, desired: ShellOpen, log: Logger): Promise<ShellOpenAnswer> {
  try {
    return await control.open(desired)
  } catch (err) {
    if (!(err instanceof BusError)) throw err
    log.warn({ err }, 'cannot open a session over SSH')
    return { reason: 'The control plane does not answer. Try again.' }
  }
}

type LiveTerminal = ReturnType<typeof liveTerminal>

/**
 * Collects the client's terminal size and variables before the program starts, and forwards changes to the program
 * afterwards.
 */
function liveTerminal() {
  let tty: { readonly rows: number; readonly columns: number } | undefined
  const env = new Map<string, string>()
  let stream: ShellStream | undefined
  const size = (rows: number, columns: number) => ({ rows: Math.min(rows, 65_535), columns: Math.min(columns, 65_535) })
  const setVariable = (name: string, value: string) => {
    if (!variablePattern.test(name) || value.length > maxValueLength || value.includes('\0')) return false
    if (env.size >= mostVariables && !env.has(name)) return false
    env.set(name, value)
    return true
  }
  return {
    setVariable,
    setTerminal(rows: number, columns: number, term: string) {
      tty = size(rows, columns)
      if (term !== '') setVariable('TERM', term)
    },
    resize(rows: number, columns: number) {
      tty = size(rows, columns)
      stream?.control({ action: 'resize', size: tty })
    },
    signal(name: string) {
      const number = signalNumber(name)
      if (number !== undefined) stream?.control({ action: 'signal', number })
    },
    start: (): Pick<ShellOpen, 'tty' | 'env'> => ({
      ...(tty ? { tty } : {}),
      ...(env.size > 0 ? { env: Object.fromEntries(env) } : {}),
    }),
    attach(opened: ShellStream) {
      stream = opened
      // Send the current window size: the client may have resized the window while the program was being started.
      if (tty) opened.control({ action: 'resize', size: tty })
    },
  }
}
