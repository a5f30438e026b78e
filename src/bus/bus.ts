/**
 * The message bus between programs on different hosts. Programs publish messages, subscribe to them, send requests and
 * serve requests. Two implementations pass the same test suite: `memory.ts` (one process) and `nats.ts` (NATS, with
 * JetStream for retained subjects).
 * Subjects are dot-separated tokens; a subscription may use `*` (one token) and a final `>` (one or more). The table in
 * `streams.ts` lists the retained subjects with their limits; other messages are fire-and-forget.
 */
import type { Outage } from '../lib/outage.ts'

export interface Message {
  readonly subject: string
  readonly data: unknown
  /** Sequence number in the stream that retains the subject: from 1, strictly increasing. 0 on other subjects. */
  readonly seq: number
  /** Time at which the bus accepted the message, in ms since the epoch. */
  readonly atMs: number
}

export interface SubscribeOptions {
  /**
   * Position at which a subscription to a retained subject starts. `new` (default): only later messages. A number N:
   * all retained messages with seq > N, then live ones, without a gap in between. `{ last: n }`: the newest n retained
   * messages that match, then live ones. On subjects that are not retained, it must be absent or `new`.
   */
  readonly from?: 'new' | number | { readonly last: number }
  /** Called once, before the first message, if retention has already dropped messages after `from`. */
  readonly onGap?: (gap: { readonly after: number; readonly firstKept: number }) => void
  /** Name of a group of subscribers; each message goes to only one member of the group. Not for retained subjects. */
  readonly group?: string
  /** The subscription ends when this signal aborts. */
  readonly signal?: AbortSignal
}

export interface RequestOptions {
  /** The request fails with BusError `timeout` after this many ms. */
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

/**
 * Handles one message at a time, in order. If it rejects, the bus logs the error and continues with the next message.
 */
export type MessageHandler = (message: Message) => void | Promise<void>

/**
 * Handles a request and returns the response. Both are JSON, or bytes: a Uint8Array that neither side may change. A
 * thrown error reaches the caller as BusError `remote` with the same message and code.
 */
export type RequestHandler = (data: unknown, subject: string) => unknown | Promise<unknown>

export interface Subscription {
  /** Stops the subscription or server. Idempotent. Resolves once the handler will not be called any more. */
  stop(): Promise<void>
}

export interface Bus {
  /**
   * Publishes data that can be encoded as JSON. On a retained subject: resolves with the sequence once the stream has
   * stored the message. On other subjects: resolves with 0 at once. `id`: a second publish of the same id within two
   * minutes is dropped and returns the first sequence (retained subjects only).
   */
  publish(subject: string, data: unknown, options?: { readonly id?: string }): Promise<number>
  subscribe(subject: string, handler: MessageHandler, options?: SubscribeOptions): Promise<Subscription>
  /**
   * Sends a request and returns the response. @throws BusError `no_responder` (no server), `timeout`, `remote` (the
   * handler threw), `closed`, `aborted`.
   */
  request(subject: string, data: unknown, options: RequestOptions): Promise<unknown>
  /** Handles requests, concurrently. With several servers in one group, each request reaches one of them. */
  serve(
    subject: string,
    handler: RequestHandler,
    options?: { readonly group?: string; readonly signal?: AbortSignal },
  ): Promise<Subscription>
  /** Returns false while the connection is known to be down. In memory, always returns true. */
  connected(): boolean
  /**
   * Makes a round trip to the bus server, for health checks: a server may hang although the connection seems intact.
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
  /** The `code` property of the error that a remote handler threw, if it had one. Only for BusErrors `remote`. */
  readonly remoteCode: string | undefined
  constructor(code: BusErrorCode, message: string, options?: ErrorOptions & { remoteCode?: string }) {
    super(message, options)
    this.name = 'BusError'
    this.code = code
    this.isOutage = code !== 'remote' && code !== 'aborted'
    this.remoteCode = options?.remoteCode
  }
}
