/** Serves the sessions of one running VM to the control plane. */
import {
  encodeOutput,
  maxReadBytes,
  type SessionAnswer,
  type SessionInput,
  type SessionRequest,
  textWindowBytes,
} from '../../contract/agent.ts'
import { StepError } from '../base/step-error.ts'
import type { GuestSessions } from '../guest/sessions.ts'
import { SessionReader } from './session-reader.ts'

/**
 * The maximum number of sessions in a guest (SESSIONS_MAX in guest/mote.h). This also limits the number of buffers with
 * unread output.
 */
const maxReaders = 16
/** A session that is not read for this time is detached. The time is more than twice the longest wait of a read. */
const idleLimitMs = 60_000

type Read = Extract<SessionRequest, { action: 'read' }>

interface Entry {
  readonly reader: SessionReader
  idle: NodeJS.Timeout | undefined
  /** Number of reads of the session that are in progress. */
  reads: number
}

export class VmSessions {
  readonly #sessions: GuestSessions
  readonly #idleMs: number
  /** Attached sessions by their ids, in the order of their last reads. */
  readonly #entries = new Map<string, Entry>()
  #reclaim: NodeJS.Timeout | undefined

  constructor(sessions: GuestSessions, idleMs = idleLimitMs) {
    this.#sessions = sessions
    this.#idleMs = idleMs
    this.#releaseLater()
  }

  /**
   * Serves a request about a session. A `read` with `bytes` set returns bytes, any other request an object.
   * @throws StepError `exec_failed`, `invalid_request`
   */
  async serve(request: SessionRequest): Promise<SessionAnswer | Uint8Array> {
    const sessions = this.#sessions
    const { action } = request
    if (action === 'list')
      return { action, sessions: [...(await sessions.list())], takesBytes: true, takesInputAhead: true }
    const { sessionId } = request
    switch (action) {
      case 'open':
        return this.#open(request)
      case 'read':
        return this.#read(request)
      case 'input':
        return this.input({ ...request, data: Buffer.from(request.data, 'base64') })
      case 'close_input':
        await sessions.closeInput(sessionId)
        return { action }
      case 'resize':
        await sessions.resize(sessionId, request.size)
        return { action }
      case 'signal':
        await sessions.signal(sessionId, request.number)
        return { action }
      case 'remove':
        await sessions.remove(sessionId)
        return { action }
    }
  }

  /** Serves the input of a session. @throws StepError `exec_failed`, `invalid_request` */
  async input({ sessionId, offset, data }: Omit<SessionInput, 'vmId'>): Promise<SessionAnswer> {
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
    return { action: 'input', receivedBytes: await this.#sessions.input(sessionId, offset, bytes) }
  }

  /** Ends all attachments. Called when the VM's process has exited or the agent stops. */
  close(): void {
    clearTimeout(this.#reclaim)
    for (const { idle } of this.#entries.values()) clearTimeout(idle)
    this.#entries.clear()
  }

  async #open(request: Extract<SessionRequest, { action: 'open' }>): Promise<SessionAnswer> {
    const { command, port, socket } = request
    if ([command, port, socket].filter(one => one !== undefined).length !== 1)
      throw new StepError('invalid_request', 'a session needs a command, a port or a socket')
    const { pid } = await this.#sessions.open(request)
    this.#releaseLater()
    return { action: 'open', pid, takesBytes: true, takesInputAhead: true }
  }

  async #read({ sessionId, readerId, from, acked, waitMs, bytes }: Read): Promise<SessionAnswer | Uint8Array> {
    const known = this.#entries.get(sessionId)
    const goesOn = known?.reader.id === readerId && known.reader.covers(from)
    const entry = known && goesOn ? known : this.#attach(sessionId, readerId, from)
    this.#entries.delete(sessionId)
    this.#entries.set(sessionId, entry)
    clearTimeout(entry.idle)
    entry.reads += 1
    try {
      const output = await entry.reader.read(from, { waitMs, acked, most: bytes ? maxReadBytes : textWindowBytes })
      if (bytes) return encodeOutput(output)
      const parts = output.parts.map(part => ({ ...part, data: Buffer.from(part.data).toString('base64') }))
      return { action: 'read', parts, end: output.end }
    } catch (error) {
      if (this.#entries.get(sessionId) === entry) this.#entries.delete(sessionId)
      throw error
    } finally {
      entry.reads -= 1
      if (entry.reads === 0 && this.#entries.get(sessionId) === entry)
        entry.idle = setTimeout(() => this.#drop(sessionId, entry), this.#idleMs).unref()
    }
  }

  #attach(sessionId: string, readerId: string, from: Read['from']): Entry {
    clearTimeout(this.#entries.get(sessionId)?.idle)
    const [oldest] = this.#entries
    if (oldest && this.#entries.size >= maxReaders && !this.#entries.has(sessionId)) this.#drop(...oldest)
    return { reader: new SessionReader(this.#sessions, sessionId, readerId, from), idle: undefined, reads: 0 }
  }

  #drop(sessionId: string, entry: Entry): void {
    clearTimeout(entry.idle)
    if (this.#entries.get(sessionId) === entry) this.#entries.delete(sessionId)
    entry.reader.detach()
  }

  /**
   * Releases sessions that no client has read for some time since they were opened or the agent was restarted. A full
   * buffer in the guest would block their programs.
   */
  #releaseLater(): void {
    clearTimeout(this.#reclaim)
    this.#reclaim = setTimeout(() => void this.#releaseUnread().catch(() => undefined), this.#idleMs).unref()
  }

  async #releaseUnread(): Promise<void> {
    const rows = await this.#sessions.list()
    const unread = rows.filter(({ sessionId, held }) => held && !this.#entries.has(sessionId))
    await Promise.all(unread.map(({ sessionId }) => this.#sessions.release(sessionId)))
  }
}
