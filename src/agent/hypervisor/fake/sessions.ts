/**
 * Sessions of a simulated guest. `cat`, `sh` and ports echo their input and exit when it ends (`sh -c '...; exit 7'`
 * with that code). `echo` prints its arguments; `sleep` runs until a signal ends it. File tools work on files in
 * memory. `watch` drops changes while more output is unread than a real guest would retain.
 */
import { basename } from 'node:path'
import { StepError } from '../../base/step-error.ts'
import {
  maxBacklogBytes,
  type Offsets,
  type SessionEnd,
  type SessionRow,
  type SessionStart,
} from '../../guest/session-words.ts'
import { type FakeFiles, fakeFiles, type ToolResult } from './files.ts'
import type { Attachment, GuestSessions, SessionData } from '../../guest/sessions.ts'

const mostSessions = 16

interface FakeSession {
  readonly start: SessionStart
  output: Record<keyof Offsets, Buffer>
  /** Standard input that a file tool has received. */
  readonly input: Buffer[]
  inputBytes: number
  end: SessionEnd | undefined
  attached: Attached | undefined
  held: boolean
  /** Bytes of standard output that clients have acknowledged. */
  readBytes: number
  /** True if the tool `watch` has dropped changes and not reported that yet. */
  isIncomplete: boolean
  /** Ends the tool `watch`. */
  unwatch: () => void
}

interface Attached {
  readonly sent: Record<keyof Offsets, number>
  readonly onData: (part: SessionData) => void
  readonly settled: PromiseWithResolvers<SessionEnd>
}

const refused = (message: string) => new StepError('session_refused', `the guest answered: ${message}`)

export function fakeSessions(): GuestSessions {
  const sessions = new Map<string, FakeSession>()
  const files = fakeFiles()
  const find = (sessionId: string) => {
    const session = sessions.get(sessionId)
    if (!session) throw new StepError('session_missing', 'the guest answered: no such session')
    return session
  }
  const running = (sessionId: string) => {
    const session = find(sessionId)
    if (session.end) throw refused('it has ended')
    return session
  }
  return {
    async open(start) {
      if (sessions.has(start.sessionId)) throw refused('it exists')
      if (sessions.size >= mostSessions) throw refused('too many sessions')
      sessions.set(start.sessionId, started(start, files))
      return { pid: 100 + sessions.size }
    },
    attach: (sessionId, from, onData) => attachTo(sessions.get(sessionId), from, onData),
    async input(sessionId, offset, data) {
      const session = running(sessionId)
      if (offset > session.inputBytes) throw refused('bad input')
      const fresh = data.subarray(session.inputBytes - offset)
      session.inputBytes += fresh.length
      if (session.start.fileTool) session.input.push(fresh)
      else if (repeats(session.start)) print(session, 'stdout', fresh)
      return session.inputBytes
    },
    async closeInput(sessionId) {
      const session = running(sessionId)
      if (session.start.fileTool) runTool(session, files)
      else if (repeats(session.start)) finish(session, 'exited', codeOf(session.start))
    },
    async resize(sessionId) {
      if (!running(sessionId).start.tty) throw refused('no terminal')
    },
    async signal(sessionId, number) {
      finish(running(sessionId), 'signaled', number)
    },
    list: async () => [...sessions.values()].map(rowOf),
    async release(sessionId) {
      const session = find(sessionId)
      session.held = false
      leave(session)
    },
    async remove(sessionId) {
      if (!find(sessionId).end) throw refused('it is running')
      sessions.delete(sessionId)
    },
  }
}

const commandOf = ({ command = ['cat'] }: SessionStart) => command
const programOf = (start: SessionStart) => basename(commandOf(start)[0] ?? '')
const repeats = (start: SessionStart) => ['cat', 'sh', 'bash'].includes(programOf(start))
const codeOf = (start: SessionStart) => exitCodeOf(commandOf(start))
/** Returns the exit code of a command: 7 for `sh -c '...; exit 7'`, 0 for every other command. */
export const exitCodeOf = (command: readonly string[]) => Number(/exit (\d+)/.exec(command.at(-1) ?? '')?.[1] ?? 0)

function started(start: SessionStart, files: FakeFiles): FakeSession {
  const session: FakeSession = {
    start,
    output: { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) },
    input: [],
    inputBytes: 0,
    end: undefined,
    attached: undefined,
    held: true,
    readBytes: 0,
    isIncomplete: false,
    unwatch: () => undefined,
  }
  if (start.fileTool && commandOf(start)[0] === 'watch') {
    startWatch(session, files)
    return session
  }
  if (start.fileTool) {
    if (!start.input) runTool(session, files)
    return session
  }
  const program = programOf(start)
  if (program === 'echo') print(session, 'stdout', Buffer.from(`${commandOf(start).slice(1).join(' ')}\n`))
  else if (!repeats(start) && program !== 'sleep' && program !== 'true')
    print(session, 'stderr', Buffer.from(`${program}: not found\n`))
  const waits = program === 'sleep' || (repeats(start) && (start.input || start.tty))
  if (!waits) finish(session, 'exited', ['echo', 'true', 'cat', 'sh', 'bash'].includes(program) ? codeOf(start) : 127)
  return session
}

function startWatch(session: FakeSession, files: FakeFiles): void {
  const watching = files.watch(session.start, line => {
    if (line === undefined) finish(session, 'exited', 0)
    else if (session.output.stdout.length - session.readBytes > maxBacklogBytes) session.isIncomplete = true
    else print(session, 'stdout', Buffer.from(line))
  })
  if (typeof watching === 'function') session.unwatch = watching
  else endTool(session, watching)
}

const runTool = (session: FakeSession, files: FakeFiles): void =>
  endTool(session, files.run(session.start, Buffer.concat(session.input)))

function endTool(session: FakeSession, { stdout, stderr, code }: ToolResult): void {
  session.output.stdout = stdout
  session.output.stderr = Buffer.from(stderr)
  finish(session, 'exited', code)
}

function print(session: FakeSession, stream: keyof Offsets, data: Buffer): void {
  session.output[stream] = Buffer.concat([session.output[stream], data])
  deliver(session)
}

function finish(session: FakeSession, reason: SessionEnd['reason'], code: number): void {
  session.unwatch()
  session.end = { reason, code, total: totalOf(session) }
  deliver(session)
}

const totalOf = ({ output }: FakeSession): Offsets => ({ stdout: output.stdout.length, stderr: output.stderr.length })

function deliver({ attached, output, end }: FakeSession): void {
  if (!attached) return
  for (const stream of ['stdout', 'stderr'] as const) {
    const offset = attached.sent[stream]
    const data = output[stream].subarray(offset)
    attached.sent[stream] += data.length
    if (data.length > 0) attached.onData({ stream, offset, lostBytes: 0, data })
  }
  if (end) attached.settled.resolve(end)
}

function attachTo(session: FakeSession | undefined, from: Offsets, onData: (part: SessionData) => void): Attachment {
  const attached: Attached = { sent: { ...from }, onData, settled: Promise.withResolvers() }
  attached.settled.promise.catch(() => undefined)
  if (session) {
    leave(session)
    session.attached = attached
    session.held = true
    queueMicrotask(() => deliver(session))
  } else attached.settled.reject(new StepError('session_missing', 'the guest answered: no such session'))
  return {
    ended: attached.settled.promise,
    windowBytes: () => maxBacklogBytes,
    ack: (stream, until) => {
      if (!session || stream === 'stderr') return
      session.readBytes = Math.max(session.readBytes, until)
      if (!session.isIncomplete || session.end) return
      session.isIncomplete = false
      print(session, 'stdout', Buffer.from('overflow\n'))
    },
    detach: async () => {
      if (session?.attached === attached) leave(session)
    },
  }
}

function leave(session: FakeSession): void {
  session.attached?.settled.reject(refused('detached'))
  session.attached = undefined
}

function rowOf(session: FakeSession): SessionRow {
  const { start, end, held, inputBytes } = session
  return {
    sessionId: start.sessionId,
    state: end?.reason ?? 'running',
    number: end?.code ?? 100,
    tty: Boolean(start.tty),
    held,
    oldest: { stdout: 0, stderr: 0 },
    total: totalOf(session),
    inputBytes,
  }
}
