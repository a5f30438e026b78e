/** Client side of a VM session: reconnects after a lost connection without losing or repeating a byte. */
import {
  type ClientMessage,
  decodeOutput,
  encodeInput,
  inputWindowBytes,
  maxDataBytes,
  type ServerMessage,
  type SessionSignal,
  sessionSubprotocol,
} from './session-frames.ts'
import { backoffMs } from './wait.ts'

export interface SessionResult {
  /** How the program ended. `lost`: the VM has ended, or the session was removed. */
  readonly reason: 'exited' | 'signaled' | 'lost'
  /** Exit code of the program, or number of the signal; null for `lost`. */
  readonly code: number | null
}

export interface SessionConnection {
  /** Result of the program. Rejects when the session cannot be reached, or another client has taken it over. */
  readonly ended: Promise<SessionResult>
  /**
   * Writes input of the program. Resolves once the data is queued or sent. Waits while more is unconfirmed than the
   * server allows (2 MiB).
   */
  write(data: Uint8Array): Promise<void>
  /** Closes the input after the data that was written before. */
  closeInput(): void
  resize(rows: number, columns: number): void
  signal(signal: SessionSignal): void
  /** Disconnects from the session. The program continues to run. */
  detach(): void
}

export interface SessionOptions {
  /** Origin of the API, for example `https://cloud.example.com`; empty in a browser on that origin. */
  readonly baseUrl: string
  /** Path of the operation `attachVmSession`. */
  readonly path: string
  readonly project?: string | undefined
  /** Returns the current credential. Called before each connection. */
  readonly token: () => string | undefined
  /**
   * Reads the state of the session, to learn why a connection was refused. Returns its result if the program has ended;
   * rejects if the session cannot be used.
   */
  readonly state: () => Promise<SessionResult | undefined>
  /** Called with output in order. The server sends more once the promise is settled. */
  readonly onOutput: (stream: 'stdout' | 'stderr', data: Uint8Array) => void | Promise<void>
  /** Called when output was lost, because the VM no longer retains it. `bytes`: how many bytes are missing. */
  readonly onLost?: (stream: 'stdout' | 'stderr', bytes: number) => void
  readonly onState?: (state: 'open' | 'waiting') => void
  /** Time without a connection after which `ended` rejects; default 2 min. */
  readonly patienceMs?: number
}

/** Close codes of the server after which reconnecting would not help. */
const finalCodes: Readonly<Record<number, string>> = {
  1008: 'The server refused the connection',
  4409: 'Another client has taken over this session.',
}

/** Close code of the server for a session that no longer exists: the rest of its output is lost. */
const sessionGone = 4404
const goneText = 'The program has ended, but the end of its output was lost with the connection.'

export function connectSession(options: SessionOptions): SessionConnection {
  return new Connection(options)
}

class Connection implements SessionConnection {
  readonly ended: Promise<SessionResult>
  readonly #options: SessionOptions
  readonly #result = Promise.withResolvers<SessionResult>()
  #socket: WebSocket | undefined
  /** Number of bytes of each output stream that `onOutput` has processed. */
  readonly #have = { stdout: 0, stderr: 0 }
  /** Settles when all received messages are handled: they are handled one after the other. */
  #turn = Promise.resolve()
  /** Input that the program has not confirmed, and the position of its first byte. */
  #unconfirmed: Uint8Array[] = []
  #confirmed = 0
  #inputWindow = inputWindowBytes
  /** Whether `#confirmed` is known, as reported by the server. Until then, no input is sent. */
  #isBased = false
  #inputClosed = false
  /** Whether the program reads no more input, so that input is discarded. */
  #isDiscarding = false
  /** Settles when all writes are done: they are performed in order. */
  #writing = Promise.resolve()
  #room = Promise.withResolvers<void>()
  #size: { readonly rows: number; readonly columns: number } | undefined
  #attached = false
  #over = false
  #tries = 0
  #lostAtMs: number | undefined

  constructor(options: SessionOptions) {
    this.#options = options
    this.ended = this.#result.promise
    this.ended.catch(() => undefined)
    this.#connect()
  }

  write(data: Uint8Array): Promise<void> {
    this.#writing = this.#writing.then(() => this.#writeAll(data))
    return this.#writing
  }

  async #writeAll(data: Uint8Array): Promise<void> {
    for (let at = 0; at < data.length; at += maxDataBytes) {
      const part = data.slice(at, at + maxDataBytes)
      while (this.#takesInput() && this.#waitingBytes() + part.length > this.#inputWindow) {
        this.#room = Promise.withResolvers()
        await this.#room.promise
      }
      if (!this.#takesInput()) return
      const position = this.#confirmed + this.#waitingBytes()
      this.#unconfirmed.push(part)
      if (this.#attached) this.#socket?.send(encodeInput(position, part))
    }
  }

  closeInput(): void {
    this.#writing = this.#writing.then(() => {
      this.#inputClosed = true
      this.#tell({ type: 'close_input' })
    })
  }

  resize(rows: number, columns: number): void {
    this.#size = { rows, columns }
    this.#tell({ type: 'resize', rows, columns })
  }

  signal(signal: SessionSignal): void {
    this.#tell({ type: 'signal', signal })
  }

  detach(): void {
    this.#finish()
    this.#result.reject(new Error('Detached.'))
  }

  #takesInput = () => !this.#over && !this.#isDiscarding

  #waitingBytes(): number {
    let bytes = 0
    for (const part of this.#unconfirmed) bytes += part.length
    return bytes
  }

  #tell(message: ClientMessage): void {
    if (this.#attached) this.#socket?.send(JSON.stringify(message))
  }

  #connect(): void {
    if (this.#over) return
    const { baseUrl, path, project, token } = this.#options
    const search = new URLSearchParams({ stdout: `${this.#have.stdout}`, stderr: `${this.#have.stderr}` })
    if (project !== undefined) search.set('project', project)
    const url = `${webSocketOrigin(baseUrl)}${path}?${search.toString()}`
    const credential = token()
    const protocols = [sessionSubprotocol, ...(credential === undefined ? [] : [`bearer.${credential}`])]
    const socket = new WebSocket(url, protocols)
    socket.binaryType = 'arraybuffer'
    this.#socket = socket
    socket.addEventListener('message', ({ data }) => this.#queue(socket, data))
    socket.addEventListener('close', ({ code, reason }) => {
      this.#turn = this.#turn.then(() => this.#closed(socket, code, reason))
    })
  }

  #queue(socket: WebSocket, data: unknown): void {
    this.#turn = this.#turn
      .then(() => this.#take(socket, data))
      .catch((cause: unknown) => {
        this.#finish()
        this.#result.reject(cause)
      })
  }

  async #take(socket: WebSocket, data: unknown): Promise<void> {
    if (this.#over || socket !== this.#socket) return
    if (data instanceof ArrayBuffer) return this.#takeOutput(socket, data)
    // Not validated here, because the server checks its messages against their schema.
    const message = JSON.parse(String(data)) as ServerMessage
    switch (message.type) {
      case 'attached':
        this.#inputWindow = message.inputWindow ?? inputWindowBytes
        return this.#resume(message.stdin)
      case 'received':
        return this.#confirm(message.stdin)
      case 'input_closed':
        return this.#discardInput()
      case 'lost':
        return this.#options.onLost?.(message.stream, message.bytes)
      case 'end':
        this.#tell({ type: 'done' })
        this.#end({ reason: message.reason, code: message.code })
    }
  }

  async #takeOutput(socket: WebSocket, message: ArrayBuffer): Promise<void> {
    const { stream, position, data } = decodeOutput(message)
    const known = Math.max(0, this.#have[stream] - position)
    if (known < data.length) await this.#options.onOutput(stream, data.subarray(known))
    this.#have[stream] = Math.max(this.#have[stream], position + data.length)
    if (socket === this.#socket) this.#tell({ type: 'ack', ...this.#have })
  }

  /** After a connect, sends the input that the program has not received, in the order of the writes. */
  #resume(received: number): void {
    this.#attached = true
    this.#lostAtMs = undefined
    this.#tries = 0
    this.#options.onState?.('open')
    // Adopt the position of the server: an earlier client of the session may have written input, so it need not be 0.
    if (!this.#isBased) this.#confirmed = received
    this.#isBased = true
    this.#confirm(received)
    let position = this.#confirmed
    for (const part of this.#unconfirmed) {
      this.#socket?.send(encodeInput(position, part))
      position += part.length
    }
    if (this.#size) this.#tell({ type: 'resize', ...this.#size })
    if (this.#inputClosed && !this.#isDiscarding) this.#tell({ type: 'close_input' })
  }

  #discardInput(): void {
    this.#isDiscarding = true
    this.#unconfirmed = []
    this.#room.resolve()
  }

  #confirm(received: number): void {
    while (this.#confirmed < received) {
      const [first] = this.#unconfirmed
      if (!first) break
      const done = Math.min(first.length, received - this.#confirmed)
      if (done === first.length) this.#unconfirmed.shift()
      else this.#unconfirmed[0] = first.subarray(done)
      this.#confirmed += done
    }
    this.#room.resolve()
  }

  async #closed(socket: WebSocket, code: number, reason: string): Promise<void> {
    if (this.#over || socket !== this.#socket) return
    this.#attached = false
    const fault = finalCodes[code]
    if (fault !== undefined) return this.#fail(new Error(reason === '' ? fault : `${fault}: ${reason}`))
    this.#lostAtMs ??= Date.now()
    try {
      const result = await this.#options.state()
      if (result?.reason === 'lost') return this.#end(result)
      if (result && code === sessionGone) return this.#fail(new Error(goneText))
    } catch (cause) {
      if (isFinal(cause)) return this.#fail(cause)
    }
    if (Date.now() - this.#lostAtMs > (this.#options.patienceMs ?? 120_000))
      return this.#fail(new Error('The connection was lost, and the server does not answer.'))
    this.#options.onState?.('waiting')
    setTimeout(() => this.#connect(), backoffMs(this.#tries++, 100, 5_000, Math.random))
  }

  #end(result: SessionResult): void {
    this.#finish()
    this.#result.resolve(result)
  }

  #fail(cause: unknown): void {
    this.#finish()
    this.#result.reject(cause)
  }

  #finish(): void {
    this.#over = true
    this.#room.resolve()
    this.#socket?.close(1000)
  }
}

/** Returns the origin for WebSocket URLs. Some browsers accept relative URLs for requests but not for WebSockets. */
function webSocketOrigin(baseUrl: string): string {
  const page: unknown = baseUrl === '' ? Reflect.get(globalThis, 'location') : undefined
  return String(page ? Reflect.get(Object(page), 'origin') : baseUrl).replace(/^http/, 'ws')
}

/** Whether the server would refuse the same request again, so that a retry is useless. */
function isFinal(cause: unknown): boolean {
  const status: unknown = typeof cause === 'object' && cause !== null ? Reflect.get(cause, 'status') : undefined
  return typeof status === 'number' && status >= 400 && status < 500 && status !== 429
}
