import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { type Frame, frameReader } from './frames.ts'
import type { GuestPorts } from './ports.ts'

export interface GuestEvents {
  /** Lines of the workload in order; acknowledge with `ack` once they are safe. */
  readonly onFrames: (frames: readonly Frame[]) => void
  readonly onStarted: () => void
  readonly onExit: (code: number) => void
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
  const read = frameReader(nonce, events.onFrames)
  log.on('data', read).on('error', () => undefined)
  // The newline ends what an earlier connection may have left half-said.
  log.write(`\nfrom ${fromSeq} ${nonce}\n`)
  const heard = new Map<string, PromiseWithResolvers<void>>()
  const onWord = (word: string, text: readonly string[]) => {
    announce(events, word, text)
    heard.get(word)?.resolve()
    heard.delete(word)
  }
  const requests = controlClient(control, nonce, onWord)
  const ready = requests.request('status', 0)
  ready.catch(() => undefined)
  return {
    request: requests.request,
    said(what) {
      const waiter = heard.get(what) ?? Promise.withResolvers<void>()
      heard.set(what, waiter)
      return waiter.promise
    },
    ...{ ready, closed, broken: Promise.race([closed, controlClosed]) },
    ack: seq => {
      if (log.writable) log.write(`ack ${seq}\n`)
    },
    close: () => {
      control.destroy()
      log.destroy()
    },
  }
}

function controlClient(
  socket: Socket,
  nonce: string,
  onWord: (word: string, text: readonly string[]) => void,
): Pick<GuestChannel, 'request'> {
  const pending = new Map<string, Waiter>()
  let nextId = 1
  let rest = ''
  socket.write('\n')
  socket.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const [id = '', word = '', ...text] = line.split(' ')
      if (id === '*') onWord(word, text)
      else settle(pending, id, word, text.join(' '))
    }
  })
  socket.on('error', () => undefined)
  socket.on('close', () => {
    for (const waiter of pending.values()) waiter.reject(new Error('the connection to the guest closed'))
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

function announce(events: GuestEvents, what: string, text: readonly string[]): void {
  if (what === 'started') events.onStarted()
  if (what === 'exit') events.onExit(Number(text[0]))
}

interface Waiter extends PromiseWithResolvers<string> {
  readonly onPart: PartHandler
}

function settle(pending: ReadonlyMap<string, Waiter>, id: string, word: string, text: string): void {
  const waiter = pending.get(id)
  if (word === 'o' || word === 'e') waiter?.onPart(word, text)
  else if (word === 'ok') waiter?.resolve(text)
  else waiter?.reject(new Error(`the guest answered: ${text}`))
}
