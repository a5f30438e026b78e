/**
 * The bus over NATS (nats-server 2.9 or later with JetStream). PostgreSQL is the source of truth: JetStream syncs its
 * files every two minutes by default, so the newest log lines may be lost in a power failure. A cluster, or
 * `sync_interval: always` in the server's configuration (2.10 or later), prevents that at the cost of an fsync per
 * message.
 */
import {
  jetstream,
  jetstreamManager,
  type JetStreamClient,
  type JetStreamManager,
  type JsMsg,
} from '@nats-io/jetstream'
import { connect, headers, type Msg, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node'
import type { Logger } from 'pino'
import {
  type Bus,
  BusError,
  type Message,
  type MessageHandler,
  type RequestHandler,
  type RequestOptions,
  type SubscribeOptions,
  type Subscription,
} from './bus.ts'
import { levelOf } from '../lib/outage.ts'
import { onFirstAbort, withinLimits } from './limits.ts'
import {
  answerTimeoutMs,
  busError,
  connectionOptions,
  type NatsBusOptions,
  streamsError,
  withoutSecrets,
} from './nats-connection.ts'
import { readRetained } from './nats-reader.ts'
import { ensureStream, findStart } from './nats-streams.ts'
import { createMessageQueue } from './message-queue.ts'
import { type StreamPolicy, streams } from './streams.ts'
import { assertPattern, assertSubject, streamPolicyOf } from './subjects.ts'
import { decode, encode, encodeAnswer, encodeRequest, failure, plan, unwrap } from './wire.ts'

export type { NatsBusOptions }

/** How long `close` waits for a server that may hang. */
const drainMs = 2_000

/**
 * Connects to NATS. Later disconnects are repaired automatically.
 * @throws BusError `closed` when no server with JetStream is reachable now
 */
export async function connectNatsBus(options: NatsBusOptions): Promise<Bus> {
  const connection = await connect(await connectionOptions(options)).catch((error: unknown) => {
    const message = error instanceof Error ? error.message : String(error)
    throw new BusError('closed', `cannot connect to NATS at ${withoutSecrets(options.servers)}: ${message}`, {
      cause: error,
    })
  })
  try {
    if (options.manageStreams ?? true) {
      const manager = await jetstreamManager(connection, { timeout: answerTimeoutMs })
      for (const policy of streams) await ensureStream(manager, policy)
    }
  } catch (error) {
    await connection.close()
    throw streamsError(error, withoutSecrets(options.servers))
  }
  return new NatsBus(connection, options.log)
}

class NatsBus implements Bus {
  readonly #connection: NatsConnection
  readonly #client: JetStreamClient
  readonly #log: Logger
  readonly #closing = new AbortController()
  readonly #reconnected = new Set<() => void>()
  #connected = true

  constructor(connection: NatsConnection, log: Logger) {
    this.#connection = connection
    this.#client = jetstream(connection, { timeout: answerTimeoutMs })
    this.#log = log
    void this.#watch()
  }

  async publish(subject: string, data: unknown, { id }: { readonly id?: string } = {}): Promise<number> {
    this.#assertOpen()
    assertSubject(subject)
    const text = encode(data)
    if (streamPolicyOf(subject) === undefined) {
      this.#connection.publish(subject, text)
      return 0
    }
    try {
      return (await this.#client.publish(subject, text, id === undefined ? {} : { msgID: id })).seq
    } catch (error) {
      throw busError(error, subject)
    }
  }

  async subscribe(pattern: string, handler: MessageHandler, options: SubscribeOptions = {}): Promise<Subscription> {
    this.#assertOpen()
    const policy = plan(pattern, options)
    return policy === undefined
      ? this.#listen(pattern, handler, options)
      : this.#read(policy, pattern, handler, options)
  }

  async request(subject: string, data: unknown, { timeoutMs, signal }: RequestOptions): Promise<unknown> {
    this.#assertOpen()
    assertSubject(subject)
    // The request fails with the timeout of `withinLimits`. The client library's own timeout, a second later, only
    // removes the request from the library's table.
    const wire = encodeRequest(data)
    const asked = this.#connection.request(subject, wire, {
      timeout: timeoutMs + 1_000,
      ...(typeof wire === 'string' ? {} : { headers: marked() }),
    })
    const limits = { subject, timeoutMs, signal, closing: this.#closing.signal }
    const answer = await withinLimits(asked, limits).catch((error: unknown) => {
      throw busError(error, subject)
    })
    return unwrap(answer.headers?.has(bytesHeader) ? answer.data : answer.string())
  }

  async serve(
    pattern: string,
    handler: RequestHandler,
    { group, signal }: { readonly group?: string; readonly signal?: AbortSignal } = {},
  ): Promise<Subscription> {
    this.#assertOpen()
    assertPattern(pattern)
    return this.#subscribe(pattern, group, signal, message => void answer(handler, message))
  }

  connected(): boolean {
    return this.#connected
  }

  async ping(timeoutMs: number): Promise<void> {
    this.#assertOpen()
    await this.#roundTrip('ping', timeoutMs)
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return
    this.#closing.abort()
    this.#connected = false
    // Sends published messages that are still buffered, if the server responds.
    const drained = withinLimits(this.#connection.drain(), {
      subject: 'the NATS server',
      timeoutMs: drainMs,
      signal: undefined,
      closing: new AbortController().signal,
    })
    await drained.catch(() => this.#connection.close())
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new BusError('closed', 'the bus is closed')
  }

  /**
   * Waits until the server has processed all earlier messages of this connection. Fails for a hung server, which the
   * client library notices only after half a minute.
   */
  async #roundTrip(subject: string, timeoutMs: number): Promise<void> {
    const limits = { subject: 'the NATS server', timeoutMs, signal: undefined, closing: this.#closing.signal }
    await withinLimits(this.#connection.flush(), limits).catch((error: unknown) => {
      throw busError(error, subject)
    })
  }

  async #watch(): Promise<void> {
    for await (const status of this.#connection.status()) {
      if (status.type === 'disconnect') this.#connected = false
      if (status.type === 'error') this.#log.error({ err: status.error.message }, 'the bus server reported an error')
      if (status.type !== 'reconnect') continue
      this.#connected = true
      for (const callback of this.#reconnected) callback()
    }
    this.#connected = false
  }

  /**
   * Subscribes, and resolves once the server has registered the subscription, so that it receives every later message.
   */
  async #subscribe(
    pattern: string,
    group: string | undefined,
    signal: AbortSignal | undefined,
    onMessage: (message: Msg) => void,
    onStop: () => void = () => undefined,
  ): Promise<Subscription> {
    const subscription = this.#connection.subscribe(pattern, {
      ...(group === undefined ? {} : { queue: group }),
      callback: (error, message) => {
        if (error) this.#log.error({ err: error.message, pattern }, 'a bus subscription was refused')
        else onMessage(message)
      },
    })
    const end = () => {
      onStop()
      // When the bus closes, draining the connection ends all its subscriptions, so no `unsubscribe` is needed.
      if (!this.#closing.signal.aborted) subscription.unsubscribe()
    }
    const unhook = onFirstAbort([signal, this.#closing.signal], end)
    await this.#roundTrip(pattern, answerTimeoutMs).catch((error: unknown) => {
      unhook()
      end()
      throw error
    })
    return {
      stop: async () => {
        unhook()
        end()
      },
    }
  }

  #listen(pattern: string, handler: MessageHandler, { group, signal }: SubscribeOptions): Promise<Subscription> {
    const queue = createMessageQueue<Msg & { atMs: number }>(message =>
      this.#call(handler, { subject: message.subject, seq: 0, atMs: message.atMs }, message.string()),
    )
    // Ignores messages with a reply subject: such messages are requests, which only `serve` handles.
    const onMessage = (message: Msg) => {
      if (!message.reply) queue.push(Object.assign(message, { atMs: Date.now() }))
    }
    return this.#subscribe(pattern, group, signal, onMessage, () => queue.stop())
  }

  async #read(
    policy: StreamPolicy,
    pattern: string,
    handler: MessageHandler,
    options: SubscribeOptions,
  ): Promise<Subscription> {
    const manager: JetStreamManager = await this.#client.jetstreamManager()
    const start = await findStart(manager, policy, pattern, options.from ?? 'new')
    if (start.gap !== undefined) options.onGap?.(start.gap)
    const stopped = new AbortController()
    const signal = AbortSignal.any([stopped.signal, this.#closing.signal, ...(options.signal ? [options.signal] : [])])
    void readRetained({
      client: this.#client,
      stream: policy.name,
      pattern,
      start,
      log: this.#log,
      signal,
      onReconnect: callback => {
        this.#reconnected.add(callback)
        return () => this.#reconnected.delete(callback)
      },
      deliver: (message: JsMsg) =>
        this.#call(
          handler,
          { subject: message.subject, seq: message.seq, atMs: message.time.getTime() },
          message.string(),
        ),
    })
    return { stop: async () => stopped.abort() }
  }

  async #call(handler: MessageHandler, { subject, seq, atMs }: Omit<Message, 'data'>, text: string): Promise<void> {
    try {
      await handler({ subject, data: decode(text), seq, atMs })
    } catch (error) {
      this.#log[levelOf(error)]({ err: error, subject }, 'a bus handler failed')
    }
  }
}

/** Header that marks a request or response of bytes instead of JSON. */
const bytesHeader = 'Mote-Bytes'

function marked(): MsgHdrs {
  const all = headers()
  all.set(bytesHeader, '1')
  return all
}

async function answer(handler: RequestHandler, message: Msg): Promise<void> {
  if (!message.reply) return
  const result = await Promise.resolve()
    .then(() => handler(message.headers?.has(bytesHeader) ? message.data : decode(message.string()), message.subject))
    .then(encodeAnswer, error => encode(failure(error)))
  if (typeof result === 'string') return void message.respond(result)
  message.respond(result, { headers: marked() })
}
