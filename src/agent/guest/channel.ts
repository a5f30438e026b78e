import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { lineReader } from '../../lib/lines.ts'
import { Exit, parseWords } from './answers.ts'
import { GuestFault } from './fault.ts'
import { type Frame, frameReader } from './frames.ts'
import { logPace, readPaced } from './pace.ts'
import type { GuestPorts } from './ports.ts'

export interface GuestEvents {
  /** Lines of the workload in order; acknowledge with `ack` once they are safe. */
  readonly onFrames: (frames: readonly Frame[]) => void
  readonly onStarted: () => void
  readonly onExit: (code: number) => void
  /** The guest broke the protocol: its ports are closed for good. At most once. */
  readonly onBroken: (fault: GuestFault) => void
}

export type GuestWord = 'exit' | 'halted'

/** Some verbs say `o` or `e` (output, errors) with text before their answer. */
export type PartHandler = (kind: 'o' | 'e', text: string) => void

/** The control and log ports of one guest. */
export interface GuestChannel {
  /** @throws Error when the guest answers `err`, does not answer in time, or the connection closes. */
  request(verb: string, timeoutMs: number, onPart?: PartHandler): Promise<string>
  /** Resolves when the guest says so from now on: its program has ended, or it has written everything and stands still. */
  said(what: GuestWord): Promise<void>
  ack(seq: number): void
  /** Resolves with the first answer of the guest's init: its workload's state. */
  readonly ready: Promise<string>
  /** Resolves when the log connection has ended and all that came over it has been handed on. */
  readonly closed: Promise<void>
  close(): void
}

/** One connection: it does not outlive its sockets. */
export interface GuestConnection extends GuestChannel {
  /** Resolves when one of the two ports has closed. */
  readonly broken: Promise<void>
  /** Why it may not be connected to again. */
  readonly fault: () => GuestFault | undefined
}

/**
 * Connects to the guest's ports and asks for all log frames after `fromSeq`. The protocol is in
 * docs/agent.md, its other side in guest/ports.c.
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
  // The newline ends what an earlier connection may have left half-said.
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
  /** The same, but a fault of the guest closes its ports. */
  checked(take: (part: Buffer) => number): (part: Buffer) => number
  readonly fault: () => GuestFault | undefined
}

function guardOf(ports: readonly Socket[], onBroken: GuestEvents['onBroken']): Guard {
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

/** Of what the guest holds for us (guest/ports.c); its longest line is a part of a program's output, with 12 KiB. */
const maxLineBytes = 65_536

function controlClient(
  socket: Socket,
  nonce: string,
  onWord: (word: string, text: string) => void,
  guard: Guard,
): Pick<GuestChannel, 'request'> {
  const pending = new Map<string, Waiter>()
  let nextId = 1
  socket.write('\n')
  const onLine = (line: string) => {
    const [id = '', word = ''] = line.split(' ', 2)
    const text = line.slice(id.length + word.length + 2)
    if (id === '*') onWord(word, text)
    else settle(pending, id, word, text)
  }
  const tooLong = () => {
    throw new GuestFault(`a line has more than ${maxLineBytes} bytes`)
  }
  readPaced(socket, guard.checked(lineReader(maxLineBytes, onLine, tooLong)))
  socket.on('error', () => undefined)
  socket.on('close', () => {
    const gone = guard.fault() ?? new Error('the connection to the guest closed')
    for (const waiter of pending.values()) waiter.reject(gone)
    pending.clear()
  })
  return {
    request(verb, timeoutMs, onPart = () => undefined) {
      // Not a bare number: the guest may still hold answers for an earlier connection.
      const id = `${nonce}-${nextId++}`
      const waiter = { ...Promise.withResolvers<string>(), onPart }
      pending.set(id, waiter)
      if (!socket.writable) waiter.reject(new Error('the connection to the guest is closed'))
      else socket.write(`${id} ${verb}\n`)
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

function announce(events: GuestEvents, what: string, text: string): void {
  if (what === 'started') events.onStarted()
  if (what === 'exit') events.onExit(parseWords(Exit, text)[0])
}

interface Waiter extends PromiseWithResolvers<string> {
  readonly onPart: PartHandler
}

const shownChars = 300

/** The guest answered `err`. */
class GuestRefusal extends Error {
  constructor(text: string) {
    super(`the guest answered: ${text.slice(0, shownChars).replace(/[^\x20-\x7e]/g, '?')}`)
    this.name = 'GuestRefusal'
  }
}

function settle(pending: ReadonlyMap<string, Waiter>, id: string, word: string, text: string): void {
  const waiter = pending.get(id)
  if (word === 'o' || word === 'e') waiter?.onPart(word, text)
  else if (word === 'ok') waiter?.resolve(text)
  else waiter?.reject(new GuestRefusal(text))
}
