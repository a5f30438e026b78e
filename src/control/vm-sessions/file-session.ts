/** Runs one file tool of the guest's init (guest/files.c) as a session that lives as long as an HTTP request. */
import { Readable } from 'node:stream'
import { newId } from '../../lib/ids.ts'
import { printableLine } from '../../lib/printable.ts'
import type { SessionOutput, SessionRequest } from '../../contract/agent.ts'
import { maxInputBytes } from '../../contract/agent/session.ts'
import { signalNumbers } from '../../contract/session-stream.ts'
import type { Deps } from '../base/deps.ts'
import type { Deployment } from '../deployments/index.ts'
import { ApiError, invalidState } from '../http/errors.ts'
import type { Caller } from '../http/operation.ts'
import { isClosedInput } from './attachment.ts'
import type { ToolCommand } from './file-paths.ts'
import { type GuestLine, guestLine, patient } from './guest-line.ts'
import { faultForClient, openSession } from './open.ts'
import * as store from './store.ts'

/** A file request fails if the guest makes no progress for this many milliseconds. */
const stallMs = 60_000
const readWaitMs = 20_000
/**
 * Idle time-out of the session in seconds: if the control plane exits before it has closed the session, the sweep
 * kills the tool after this time.
 */
const idleSeconds = 120
const touchMs = 40_000
/**
 * Maximum number of reads to discard the remaining output of a killed tool. The pipe and the window of each stream
 * hold at most 2.25 MiB, and a read returns up to 384 KiB of each: at most 6 reads have output.
 */
const mostLastReads = 12
const lastWaitMs = 5_000
/** Maximum number of bytes of a tool's error message: enough for the longest path (4 KiB) and a reason. */
const maxMessageBytes = 8192
const maxMessageLength = 300

export interface FilePlace {
  readonly deployment: Deployment
  readonly vmId: string
  readonly caller: Pick<Caller, 'userId'>
  /** Name or number of the user that runs the tool in the VM. Default: the user of the image. */
  readonly user: string | undefined
  /** Signal that aborts when the client has disconnected. */
  readonly signal: AbortSignal
}

type ReadPart = SessionOutput['parts'][number]

export type FileDeps = Pick<Deps, 'db' | 'bus' | 'clock'>

/**
 * Opens a session that runs the tool.
 * @param tool its action and first path appear in the session list
 */
export async function openFileSession(
  deps: FileDeps,
  place: FilePlace,
  tool: ToolCommand,
  input = false,
): Promise<FileSession> {
  const { deployment, vmId, caller, user, signal } = place
  const { command, encodedArguments } = tool
  const { id } = await openSession(deps, {
    accountId: caller.userId,
    deployment,
    vmId,
    program: `file:${command[0]} ${command[1]}`,
    idleSeconds,
    requestKey: null,
    start: {
      command: [...command],
      fileTool: true,
      input,
      ...(encodedArguments ? { encodedArguments } : {}),
      ...(user === undefined ? {} : { user }),
    },
  })
  const line = guestLine(deps, vmId)
  const touch = setInterval(() => void store.touch(deps.db, id).catch(() => undefined), touchMs).unref()
  const onEnd = () => clearInterval(touch)
  const release = async () => void (await store.remove(deps.db, id))
  const now = () => deps.clock.monotonicMs()
  return new FileSession({ id, line: patient(line, now), now, signal, onEnd, release, stallMs })
}

export interface FileSessionOptions {
  readonly id: string
  readonly line: GuestLine
  readonly now: () => number
  readonly signal: AbortSignal
  /** Called when the request no longer uses the session. */
  readonly onEnd: () => void
  /** Called after the guest has removed the session. If the guest cannot remove it, the sweep does so later. */
  readonly release: () => Promise<void>
  readonly stallMs: number
}

export class FileSession implements AsyncDisposable {
  readonly #options: FileSessionOptions
  readonly #readerId = newId()
  #stdout = 0
  #stderr = 0
  #message = Buffer.alloc(0)
  #hasEnded = false

  constructor(options: FileSessionOptions) {
    this.#options = options
  }

  /**
   * Yields the tool's standard output until the tool has ended.
   * @throws ApiError with the error message of a failed tool
   */
  async *output(): AsyncGenerator<Buffer, void, undefined> {
    const { now, stallMs } = this.#options
    let progressAt = now()
    for (let reading = this.#read(); ; ) {
      const { parts, end } = await reading
      const content = parts.map(part => this.#take(part))
      // Start the next read now, so that it runs while the consumer handles this output.
      if (!end && now() - progressAt < stallMs) reading = this.#read()
      reading.catch(() => undefined)
      for (const data of content) if (data) yield data
      // Take the time after the yield, so that the consumer's time does not count as a stall of the guest.
      if (parts.length > 0) progressAt = now()
      if (end) {
        this.#hasEnded = true
        if (end.reason === 'exited' && end.code === 0) return
        throw toolFault(this.#message, end)
      }
      if (now() - progressAt >= stallMs) throw stalled()
    }
  }

  /**
   * Updates the positions for one part of the output. Returns the data if the part is standard output; appends
   * standard error to the error message.
   */
  #take({ stream, offset, lostBytes, data: bytes }: ReadPart): Buffer | undefined {
    if (lostBytes > 0) throw new ApiError('unavailable', 'The VM did not retain all bytes. Try again.')
    const data = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    if (stream === 'stdout') {
      this.#stdout = offset + data.length
      return data
    }
    this.#stderr = offset + data.length
    this.#message = Buffer.concat([this.#message, data]).subarray(0, maxMessageBytes)
    return undefined
  }

  /** Waits until a tool without output has ended. */
  async done(): Promise<void> {
    const output = this.output()
    while (!(await output.next()).done);
  }

  /**
   * Writes the source to the tool's standard input and closes the input. Returns early if the tool stops reading;
   * `done` then throws the reason. Returns the number of bytes written.
   */
  async write(source: AsyncIterable<Buffer>): Promise<number> {
    let written = 0
    try {
      // The stream buffers data that arrives while a request to the guest is in progress.
      for await (const chunk of Readable.from(source, { objectMode: false, highWaterMark: maxInputBytes }))
        for (const end = written + chunk.length; written < end; ) {
          const from = chunk.length - (end - written)
          written = Math.min(
            end,
            Math.max(written, await this.#input(written, chunk.subarray(from, from + maxInputBytes))),
          )
        }
      await this.#ask({ action: 'close_input', sessionId: this.#options.id })
    } catch (cause) {
      if (!isClosedInput(cause)) throw cause instanceof ApiError ? cause : faultForClient(cause)
    }
    return written
  }

  /**
   * Sends SIGHUP to a tool that still runs, which makes it remove its unfinished files. The client's request does not
   * wait for this.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#options.onEnd()
    void this.#end().catch(() => undefined)
  }

  async #end(): Promise<void> {
    const { id: sessionId, line, release } = this.#options
    if (!this.#hasEnded) {
      await line.ask({ action: 'signal', sessionId, number: signalNumbers.HUP }).catch(() => undefined)
      await this.#discard()
    }
    await line.ask({ action: 'remove', sessionId })
    await release()
  }

  /**
   * Reads and drops the tool's remaining output, because the guest removes a session only after it has sent all output.
   */
  async #discard(): Promise<void> {
    const { id: sessionId, line } = this.#options
    const from = { stdout: this.#stdout, stderr: this.#stderr }
    for (let reads = 0; reads < mostLastReads && !this.#hasEnded; reads++) {
      const request = { sessionId, readerId: this.#readerId, from, waitMs: lastWaitMs }
      const { parts, end } = await line.read(request)
      for (const { stream, offset, data } of parts) from[stream] = offset + data.length
      this.#hasEnded = end !== null
    }
  }

  async #input(offset: number, data: Buffer): Promise<number> {
    const { id: sessionId, line, signal } = this.#options
    return line.input({ sessionId, offset }, [data], signal)
  }

  async #read() {
    const { id: sessionId, line, signal, stallMs } = this.#options
    const from = { stdout: this.#stdout, stderr: this.#stderr }
    const waitMs = Math.min(readWaitMs, stallMs)
    const request = { sessionId, readerId: this.#readerId, from, waitMs }
    return line.read(request, signal).catch((cause: unknown) => Promise.reject(faultForClient(cause)))
  }

  #ask<A extends SessionRequest['action']>(request: Extract<SessionRequest, { action: A }>) {
    return this.#options.line.ask<A>(request, this.#options.signal)
  }
}

const stalled = () =>
  new ApiError(
    'unavailable',
    'The VM made no progress for a minute, so the request was ended. Check the VM, then try again.',
  )

/** Hints for users, by error message of strerror(3). */
const hints: readonly (readonly [RegExp, string])[] = [
  [/: Permission denied$|: Operation not permitted$/, 'Use a user who may do this, for example root.'],
  [/: No space left on device$/, 'Remove something first.'],
  [/: Directory not empty$/, 'Remove its content as well with recursive.'],
  [/: File exists$/, 'Choose another name, or replace it with replace.'],
]

function toolFault(said: Buffer, { reason, code }: { readonly reason: string; readonly code: number }): ApiError {
  const text = printableLine(said.toString().trim())
  if (text === 'no such file tool')
    return invalidState('The VM was started by an older version of Mote. Deploy the app again to use this.')
  if (text === '' || reason !== 'exited')
    return new ApiError('unavailable', `The action ended with ${reason} ${code}. Try again.`)
  const message = text.length > maxMessageLength ? `…${text.slice(-maxMessageLength)}` : text
  if (message.endsWith(': No such file or directory')) return new ApiError('not_found', `${message}.`)
  const hint = hints.find(([pattern]) => pattern.test(message))?.[1]
  return invalidState(hint === undefined ? `${message}.` : `${message}. ${hint}`)
}
