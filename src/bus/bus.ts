/**
 * The bus: how programs on different machines meet. Three verbs (publish, subscribe, request) and the
 * answering side of request (serve). Two implementations hold the same test suite: `memory.ts` (one process)
 * and `nats.ts` (NATS, with JetStream behind the kept subjects).
 *
 * Subjects are dot-separated tokens; a subscription may use `*` (one token) and a final `>` (one or more).
 * Which subjects are kept, and for how long, is the table in `streams.ts`; everything else is fire-and-forget.
 */
import type { Outage } from '../lib/outage.ts'

export interface Message {
  readonly subject: string
  readonly data: unknown
  /** Sequence in the stream that keeps the subject, from 1 and strictly increasing; 0 on a subject nobody keeps. */
  readonly seq: number
  /** When the bus accepted it, ms since the epoch. */
  readonly atMs: number
}

export interface SubscribeOptions {
  /**
   * Where to start on a kept subject: `new` (default) only what comes from now on; a number N: everything kept with
   * seq > N, then live, without a hole in between; `{ last: n }`: the newest n kept messages that match, then live.
   * Must be absent or `new` on a subject that is not kept.
   */
  readonly from?: 'new' | number | { readonly last: number }
  /** Called once, before the first message, when messages after `from` have already been dropped by retention. */
  readonly onGap?: (gap: { readonly after: number; readonly firstKept: number }) => void
  /** Members of one group share the messages (each message to one of them). Not for kept subjects. */
  readonly group?: string
  /** Ends the subscription. */
  readonly signal?: AbortSignal
}

export interface RequestOptions {
  /** Gives up with BusError `timeout` after this many ms. */
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

/** A handler's rejection is logged by the bus and never stops the subscription. One message at a time, in order. */
export type MessageHandler = (message: Message) => void | Promise<void>

/** What it returns is the answer (JSON, or bytes: they arrive as a Uint8Array); what it throws reaches the caller as BusError `remote` with the same message and code. */
export type RequestHandler = (data: unknown, subject: string) => unknown | Promise<unknown>

export interface Subscription {
  /** Idempotent. Resolves when no handler will be called any more. */
  stop(): Promise<void>
}

export interface Bus {
  /**
   * Data must survive JSON. On a kept subject: resolves with the sequence once the stream has it. Elsewhere: 0 at once.
   * `id`: a second publish of the same id within two minutes is dropped (kept subjects only; answers the first's seq).
   */
  publish(subject: string, data: unknown, options?: { readonly id?: string }): Promise<number>
  subscribe(subject: string, handler: MessageHandler, options?: SubscribeOptions): Promise<Subscription>
  /** @throws BusError `no_responder` (nobody serves it), `timeout`, `remote` (the handler threw), `closed`, `aborted`. */
  request(subject: string, data: unknown, options: RequestOptions): Promise<unknown>
  /** Answers requests. With several servers in one group, each request reaches one of them. Requests run concurrently. */
  serve(
    subject: string,
    handler: RequestHandler,
    options?: { readonly group?: string; readonly signal?: AbortSignal },
  ): Promise<Subscription>
  /** False while the connection is known to be down (always true in memory). */
  connected(): boolean
  /**
   * Asks the server itself, which a connection that looks fine may no longer reach. For health checks.
   * @throws BusError `timeout`, `closed`
   */
  ping(timeoutMs: number): Promise<void>
  /** Stops every subscription and server, flushes what was published, closes the connection. */
  close(): Promise<void>
}

export type BusErrorCode = 'no_responder' | 'timeout' | 'remote' | 'closed' | 'aborted'

export class BusError extends Error implements Outage {
  readonly code: BusErrorCode
  readonly isOutage: boolean
  /** For `remote`: the `code` property of what the handler threw, if it had one. */
  readonly remoteCode: string | undefined
  constructor(code: BusErrorCode, message: string, options?: ErrorOptions & { remoteCode?: string }) {
    super(message, options)
    this.name = 'BusError'
    this.code = code
    this.isOutage = code !== 'remote' && code !== 'aborted'
    this.remoteCode = options?.remoteCode
  }
}
