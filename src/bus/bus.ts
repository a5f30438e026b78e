/**
 * The message bus between programs on different hosts. Three verbs (publish, subscribe, request), and serve, which
 * answers requests. Two implementations pass the same test suite: `memory.ts` (one process) and `nats.ts` (NATS, with
 * JetStream for retained subjects).
 * Subjects are dot-separated tokens; a subscription may use `*` (one token) and a final `>` (one or more). The table in
 * `streams.ts` lists the retained subjects with their limits; other messages are fire-and-forget.
 */
import type { Outage } from '../lib/outage.ts'

export interface Message {
  readonly subject: string
  readonly data: unknown
  /** Sequence in the stream that retains the subject, from 1 and strictly increasing; 0 on other subjects. */
  readonly seq: number
  /** When the bus accepted the message, ms since the epoch. */
  readonly atMs: number
}

export interface SubscribeOptions {
  /**
   * Where to start on a retained subject: `new` (default) only with later messages; a number N: all retained messages
   * with seq > N, then live, without a gap in between; `{ last: n }`: the newest n retained messages that match, then
   * live. Must be absent or `new` on other subjects.
   */
  readonly from?: 'new' | number | { readonly last: number }
  /** Called once, before the first message, if retention has already dropped messages after `from`. */
  readonly onGap?: (gap: { readonly after: number; readonly firstKept: number }) => void
  /** Members of one group share the messages (each message goes to one of them). Not for retained subjects. */
  readonly group?: string
  /** Ends the subscription. */
  readonly signal?: AbortSignal
}

export interface RequestOptions {
  /** Fails with BusError `timeout` after this many ms. */
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

/** Handles one message at a time, in order. The bus logs a rejection and continues the subscription. */
export type MessageHandler = (message: Message) => void | Promise<void>

/**
 * Returns the answer. Data and answer are JSON, or bytes, which arrive as a Uint8Array that neither side may change. A thrown error reaches the caller as BusError
 * `remote` with the same message and code.
 */
export type RequestHandler = (data: unknown, subject: string) => unknown | Promise<unknown>

export interface Subscription {
  /** Idempotent. Resolves when no handler will be called any more. */
  stop(): Promise<void>
}

export interface Bus {
  /**
   * Publishes data, which must survive JSON. On a retained subject: resolves with the sequence once the stream has
   * stored the message. Elsewhere: resolves with 0 at once. `id`: a second publish of the same id within two minutes is
   * dropped (retained subjects only; returns the first sequence).
   */
  publish(subject: string, data: unknown, options?: { readonly id?: string }): Promise<number>
  subscribe(subject: string, handler: MessageHandler, options?: SubscribeOptions): Promise<Subscription>
  /** @throws BusError `no_responder` (no server), `timeout`, `remote` (the handler threw), `closed`, `aborted`. */
  request(subject: string, data: unknown, options: RequestOptions): Promise<unknown>
  /** Answers requests, concurrently. With several servers in one group, each request reaches one of them. */
  serve(
    subject: string,
    handler: RequestHandler,
    options?: { readonly group?: string; readonly signal?: AbortSignal },
  ): Promise<Subscription>
  /** False while the connection is known to be down (always true in memory). */
  connected(): boolean
  /**
   * Makes a round trip to the server, which may hang although the connection seems intact. For health checks.
   * @throws BusError `timeout`, `closed`
   */
  ping(timeoutMs: number): Promise<void>
  /** Stops all subscriptions and servers, flushes published messages, closes the connection. */
  close(): Promise<void>
}

export type BusErrorCode = 'no_responder' | 'timeout' | 'remote' | 'closed' | 'aborted'

export class BusError extends Error implements Outage {
  readonly code: BusErrorCode
  readonly isOutage: boolean
  /** For `remote`: the `code` property of the handler's error, if it had one. */
  readonly remoteCode: string | undefined
  constructor(code: BusErrorCode, message: string, options?: ErrorOptions & { remoteCode?: string }) {
    super(message, options)
    this.name = 'BusError'
    this.code = code
    this.isOutage = code !== 'remote' && code !== 'aborted'
    this.remoteCode = options?.remoteCode
  }
}
