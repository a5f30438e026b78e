/** The server side of one WebSocket (RFC 6455). The library `ws` parses the frames. */
import { setTimeout as delay } from 'node:timers/promises'
import type { WebSocket } from 'ws'
import type { MessageSocket } from './operation.ts'

export interface SocketLimits {
  /** Interval of pings. A client that has not answered by the next ping is disconnected. */
  readonly pingMs: number
  /** Time for a client to answer a close frame. */
  readonly farewellMs: number
}

export const defaultSocketLimits: SocketLimits = { pingMs: 20_000, farewellMs: 3_000 }

/** Maximum size of a client's message: 64 KiB of data with its header. */
export const maxMessageBytes = 66_560

/** Close codes (RFC 6455, 7.4). */
const restart = 1012
const failed = 1011

interface Options {
  readonly limits: SocketLimits
  /**
   * Called with every ping. If it returns false, the connection is closed, because the credential or the membership was
   * revoked.
   */
  readonly stillAllowed: () => Promise<boolean>
}

export class SocketConnection implements MessageSocket {
  readonly #socket: WebSocket
  readonly #options: Options
  readonly #closed = new AbortController()
  readonly #ping: NodeJS.Timeout
  #answered = true

  constructor(socket: WebSocket, options: Options) {
    this.#socket = socket
    this.#options = options
    socket.binaryType = 'nodebuffer'
    // Messages that arrive before `onMessage` is called wait in the socket.
    socket.pause()
    socket.on('pong', () => {
      this.#answered = true
    })
    // The library closes the connection with the right code after an error.
    socket.on('error', () => undefined)
    socket.once('close', () => this.#finish())
    this.#ping = setInterval(() => void this.#check(), options.limits.pingMs)
  }

  get signal(): AbortSignal {
    return this.#closed.signal
  }

  onMessage(take: (message: string | Buffer) => void): void {
    this.#socket.on('message', (data, isBinary) => {
      if (this.signal.aborted) return
      const bytes = Buffer.isBuffer(data) ? data : Buffer.concat(Array.isArray(data) ? data : [Buffer.from(data)])
      take(isBinary ? bytes : bytes.toString())
    })
    this.#socket.resume()
  }

  send(message: string | Uint8Array, onSent?: () => void): void {
    if (!this.signal.aborted) this.#socket.send(message, { binary: typeof message !== 'string' }, onSent)
  }

  close(code: number, reason: string): void {
    this.#socket.close(code, cut(reason))
    this.#finish()
    const gone = new AbortController()
    this.#socket.once('close', () => gone.abort())
    delay(this.#options.limits.farewellMs, undefined, { signal: gone.signal, ref: false }).then(
      () => this.#socket.terminate(),
      () => {},
    )
  }

  /**
   * Closes the connection so that the client may connect again: the server stops, or the credential must be renewed.
   */
  end(reason: string): void {
    this.close(restart, reason)
  }

  fail(): void {
    this.close(failed, 'The server failed. Connect again.')
  }

  async #check(): Promise<void> {
    if (!this.#answered && !this.#socket.isPaused) return this.#socket.terminate()
    this.#answered = false
    this.#socket.ping()
    const allowed = await this.#options.stillAllowed().catch(() => true)
    if (!allowed) this.end('no longer allowed')
  }

  #finish(): void {
    clearInterval(this.#ping)
    this.#closed.abort()
  }
}

/** A close reason has at most 123 bytes (RFC 6455, 5.5). Forty UTF-16 code units have at most 120. */
const cut = (reason: string) => (Buffer.byteLength(reason) > 123 ? reason.slice(0, 40) : reason)
