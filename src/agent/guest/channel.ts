/** Communication with Mote's init in a guest, over its control and log ports. */
import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { giveBytes } from '../../lib/buffer-pool.ts'
import { byteLineReader } from '../../lib/lines.ts'
import { Exit, parseWords } from './answers.ts'
import { GuestFault } from './fault.ts'
import { type Frame, frameReader } from './frames.ts'
import { answerPace, logPace, readPaced, recordShare, sessionBytesPerSecond } from './pace.ts'
import type { GuestPorts } from './ports.ts'

export interface GuestEvents {
  /** Log lines of the workload, in order. The receiver calls `ack` once it has stored them. */
  readonly onFrames: (frames: readonly Frame[]) => void
  readonly onStarted: () => void
  readonly onExit: (code: number) => void
  /** The guest violated the protocol, and its ports are closed for good. Called at most once. */
  readonly onBroken: (fault: GuestFault) => void
}

export type GuestWord = 'exit' | 'halted'

/** Receives pieces of a command's standard output (`o`) and standard error (`e`), which arrive before its answer. */
export type PartHandler = (kind: 'o' | 'e', text: string) => void
/**
 * Like `PartHandler`, for output that the guest sends as records (records.ts). `record` is valid only during the call.
 */
export type RecordHandler = (kind: 'o' | 'e', record: Buffer) => void

export interface RequestOptions {
  readonly onPart?: PartHandler
  readonly onRecord?: RecordHandler
  /** Record (records.ts) that is appended to the command. Its buffer returns to the buffer pool after the write. */
  readonly record?: Buffer
}

/** The control and log ports of one guest. */
export interface GuestChannel {
  /**
   * Sends a command and resolves with its answer. No timeout if `timeoutMs` is 0.
   * @throws Error when the guest answers `err`, does not answer in time, or the connection closes.
   */
  request(verb: string, timeoutMs: number, options?: RequestOptions): Promise<string>
  /** Resolves at the guest's next notification: its program has exited, or it has flushed its disks and halted. */
  said(what: GuestWord): Promise<void>
  ack(seq: number): void
  /** Resolves with the answer to the first `status` command: the state of the workload. */
  readonly ready: Promise<string>
  /** Resolves when the log connection has closed and all its lines were delivered. */
  readonly closed: Promise<void>
  close(): void
}

/** A channel over one connection. It does not reconnect; `lastingGuest` does. */
export interface GuestConnection extends GuestChannel {
  /** Resolves when the control port or the log port has closed. */
  readonly broken: Promise<void>
  /**
   * Returns the guest's protocol violation, after which the host must not connect again; undefined if there was none.
   */
  readonly fault: () => GuestFault | undefined
}

/**
 * Connects to the guest's ports and requests all log frames after `fromSeq`. docs/agent.md describes the protocol;
 * guest/ports.c is the guest's side.
 */
export async function openGuest(ports: GuestPorts, fromSeq: number, events: GuestEvents): Promise<GuestConnection> {
  const control = await ports.control()
  const log = await ports.log().catch((error: unknown) => {
    control.destroy()
    throw error
  })
  const closed = new Promise<void>(resolve => log.once('close', () => resolve()))
  const controlClosed = new Promise<void>(resolve => control.once('close', () => resolve()))
  const nonce = randomBytes(8).toString('hex')
  const guard = guardOf([control, log], events.onBroken)
  readPaced(
    log.on('error', () => undefined),
    guard.checked(frameReader(nonce, events.onFrames)),
    logPace,
  )
  // The first newline ends a line that an earlier connection may have left incomplete.
  log.write(`\nfrom ${fromSeq} ${nonce}\n`)
  const heard = new Map<string, PromiseWithResolvers<void>>()
  const onWord = (word: string, text: string) => {
    announce(events, word, text)
    heard.get(word)?.resolve()
    heard.delete(word)
  }
  const requests = controlClient(control, nonce, onWord, guard)
  const ready = requests.request('status', 0)
  ready.catch(() => undefined)
  return {
    request: requests.request,
    said(what) {
      const waiter = heard.get(what) ?? Promise.withResolvers<void>()
      heard.set(what, waiter)
      return waiter.promise
    },
    ready,
    closed,
    broken: Promise.race([closed, controlClosed]),
    fault: guard.fault,
    ack: seq => {
      if (log.writable) log.write(`ack ${seq}\n`)
    },
    close: () => {
      control.destroy()
      log.destroy()
    },
  }
}

interface Guard {
  /** Wraps `take` so that a GuestFault closes the guest's ports. */
  checked(take: (part: Buffer) => number): (part: Buffer) => number
  readonly fault: () => GuestFault | undefined
}

function guardOf(ports: readonly Duplex[], onBroken: GuestEvents['onBroken']): Guard {
  let fault: GuestFault | undefined
  return {
    fault: () => fault,
    checked: take => part => {
      try {
        return fault ? 0 : take(part)
      } catch (error) {
        if (!(error instanceof GuestFault)) throw error
        fault = error
        for (const port of ports) port.destroy()
        onBroken(error)
        return 0
      }
    },
  }
}

/** Maximum length of a control port line. The longest valid ones contain a record (RECORD_MAX in guest/mote.h). */
const maxLineBytes = 65_536

function controlClient(
  socket: Duplex,
  nonce: string,
  onWord: (word: string, text: string) => void,
  guard: Guard,
): Pick<GuestChannel, 'request'> {
  const pending = new Map<string, Waiter>()
  let nextId = 1
  let recordBytes = 0
  socket.write('\n')
  const onLine = (line: Buffer) => {
    const record = recordIn(line)
    if (record) {
      const waiter = pending.get(record.id)
      if (!waiter?.onRecord) return
      waiter.onRecord(record.kind, record.data)
      recordBytes += record.data.length
      return
    }
    const said = line.toString()
    const [id = '', word = ''] = said.split(' ', 2)
    const text = said.slice(id.length + word.length + 2)
    if (id === '*') onWord(word, text)
    else settle(pending, id, word, text)
  }
  const tooLong = () => {
    throw new GuestFault(`a line exceeds the limit of ${maxLineBytes} bytes`)
  }
  // While a session is attached, the guest may send its output at a higher rate.
  const isAttached = () => [...pending.values()].some(waiter => waiter.isAttachment)
  readPaced(socket, guard.checked(byteLineReader(maxLineBytes, onLine, tooLong)), {
    ...answerPace,
    faster: { bytesPerSecond: sessionBytesPerSecond, isAllowed: isAttached },
    freeBytes() {
      const free = recordBytes * (1 - recordShare)
      recordBytes = 0
      return free
    },
  })
  socket.on('error', () => undefined)
  socket.on('close', () => {
    const gone = guard.fault() ?? new Error('the connection to the guest closed')
    for (const waiter of pending.values()) waiter.reject(gone)
    pending.clear()
  })
  const send = (line: string, record: Buffer | undefined) => {
    if (!record) return void socket.write(`${line}\n`)
    socket.cork()
    socket.write(`${line} `)
    socket.write(record, () => giveBytes(record))
    socket.uncork()
  }
  return {
    request(verb, timeoutMs, { onPart, onRecord, record } = {}) {
      // The nonce distinguishes the answers from late answers to an earlier connection.
      const id = `${nonce}-${nextId++}`
      const isAttachment = timeoutMs === 0 && (onPart ?? onRecord) !== undefined
      const waiter = { ...Promise.withResolvers<string>(), onPart, onRecord, isAttachment }
      pending.set(id, waiter)
      if (!socket.writable) waiter.reject(new Error('the connection to the guest is closed'))
      else send(`${id} ${verb}`, record)
      const slow = () =>
        waiter.reject(new Error(`the guest did not answer "${verb.split(' ')[0]}" within ${timeoutMs} ms`))
      const timer = timeoutMs > 0 ? setTimeout(slow, timeoutMs) : undefined
      return waiter.promise.finally(() => {
        clearTimeout(timer)
        pending.delete(id)
      })
    },
  }
}

const space = 32
const kinds: Readonly<Record<number, 'o' | 'e'>> = { 0x4f: 'o', 0x45: 'e' }

/** Parses `<id> O|E <offset> <record>`; `data` begins at the offset. Returns undefined for a line of another form. */
function recordIn(line: Buffer): { readonly id: string; readonly kind: 'o' | 'e'; readonly data: Buffer } | undefined {
  const at = line.indexOf(space)
  const kind = at < 0 || line[at + 2] !== space ? undefined : kinds[line[at + 1] ?? 0]
  return kind && { id: line.toString('latin1', 0, at), kind, data: line.subarray(at + 3) }
}

function announce(events: GuestEvents, what: string, text: string): void {
  if (what === 'started') events.onStarted()
  if (what === 'exit') events.onExit(parseWords(Exit, text)[0])
}

interface Waiter extends PromiseWithResolvers<string> {
  readonly onPart: PartHandler | undefined
  readonly onRecord: RecordHandler | undefined
  readonly isAttachment: boolean
}

const shownChars = 300

/** The guest answered a command with `err`. */
export class GuestRefusal extends Error {
  readonly answer: string
  constructor(text: string) {
    super(`the guest answered: ${text.slice(0, shownChars).replace(/[^\x20-\x7e]/g, '?')}`)
    this.name = 'GuestRefusal'
    this.answer = text
  }
}

function settle(pending: ReadonlyMap<string, Waiter>, id: string, word: string, text: string): void {
  const waiter = pending.get(id)
  if (word === 'o' || word === 'e') waiter?.onPart?.(word, text)
  else if (word === 'ok') waiter?.resolve(text)
  else waiter?.reject(new GuestRefusal(text))
}
