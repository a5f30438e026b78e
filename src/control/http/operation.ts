/**
 * How an operation of the contract is declared and implemented. Each feature folder declares its operations as data in
 * `schema.ts` (that data drives validation, serialisation, OpenAPI, the client and the tests that enumerate) and
 * implements them in `routes.ts`. The server does not start when an operation has no handler.
 */
import { hash } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { Static, TObject, TSchema } from 'typebox'
import type { FastifyBaseLogger } from 'fastify'
import type { Tx } from '../../db/db.ts'
import { type ItemRule, itemOperation } from './items.ts'
import { listQuery, type ListPart, type ListRule, type Page } from './paging.ts'
import { withFrameEvents } from './stream-events.ts'
import { waitQuery } from './waiting.ts'

export type Scope = 'read' | 'write' | 'deploy' | 'admin'
export type MemberRole = 'owner' | 'admin' | 'member' | 'viewer'

export interface Operation {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** As in the specification: `/v1/apps/{app_name}`. */
  readonly path: string
  readonly tag: string
  /** A few words, imperative. */
  readonly summary: string
  /** One to three sentences: what it does, what happens afterwards, what a caller should know. */
  readonly description?: string
  /** `bearer`: a session JWT or a PAT. `none`: no credential is looked at. */
  readonly auth: 'bearer' | 'none'
  /** What a token must be allowed to do. Only with `bearer`. */
  readonly scope: Scope
  /**
   * The project it acts in. `selected`: X-Project header, ?project=, the token's project or the user's default one.
   * `path`: the path parameter `tenant_slug`. `none`: acts on the account or the installation.
   */
  readonly project: 'selected' | 'path' | 'none'
  readonly params?: TObject
  readonly query?: TObject
  readonly body?: TSchema
  /** The specification marks the body as required even where every field of it is optional. Default: required if any field is. */
  readonly bodyRequired?: boolean
  /** JSON schema of the 200 answer, or what it is instead: an SSE stream, plain text, HTML, raw JSON of free form. */
  readonly answer: TSchema | 'stream' | 'text' | 'html' | 'free'
  /** The events of a stream by name, with the schema of the data of each. Required with `stream`. */
  readonly events?: EventTable
  /** The body reaches the handler as the bytes that were sent (webhooks). */
  readonly rawBody?: true
  /** Largest body, where the schema does not say it (body-limit.ts). */
  readonly maxBytes?: number
  /** The body reaches the handler as it arrives: a stream that fails with 413 beyond this many bytes. */
  readonly upload?: { readonly maxBytes: number }
  /** The page has forms that post to ourselves. Only with `html`. */
  readonly forms?: true
  /** It answers a list: `limit`, `cursor`, `offset`, the filters and the `Link` header are the frame's. */
  readonly list?: ListRule
  /** Operations that answer one item of this list each; they need no handler. */
  readonly items?: readonly ItemRule[]
  /** It answers one item of that list. */
  readonly itemOf?: { readonly list: string; readonly by: string; readonly within?: string }
  /** Statuses of its own, besides those of every operation of its kind. */
  readonly fails?: readonly (401 | 403 | 404 | 409)[]
  /** Path of the resource that it changes, where that is another one than its own: what `If-Match` is compared with. */
  readonly changes?: string
  /** Member of the answer that `?wait=` can wait for. */
  readonly waits?: string
  /** An addition of ours, not among the 106 operations of the specification. */
  readonly addition?: true
  /** POST that changes nothing (validate) or whose effect is not one transaction; exempt from the audit rule. */
  readonly unaudited?: true
  /** What proves the right of a caller where no credential does, or besides it. Required with `auth: 'none'`. */
  readonly proof?: string
  /** Weakens or ends the account: asks for the password, a code or a recent sign-in besides the credential. */
  readonly stepUp?: true
  /** Only users whose role is Admin. */
  readonly adminOnly?: true
  /**
   * Which allowance it draws on besides the general one. `login`: per address and e-mail. `create`: makes something
   * that costs; per project and second. `machine`: called by programs (webhooks, storage nodes). `unlimited`: probes.
   */
  readonly throttle?: 'login' | 'create' | 'machine' | 'unlimited'
  /** The answer holds a secret: never cached, never tagged. */
  readonly secretAnswer?: true
  /** It may answer with a `Set-Cookie`. */
  readonly setsCookie?: true
  /** Its `read` asks others than our database (a host, a source host): nobody is asked before the caller is known. */
  readonly asksOthers?: true
}

export type EventTable = { readonly [name: string]: TSchema }

export type OperationTable = { readonly [id: string]: Operation }

/** Keeps the literal types of a declaration, and adds what the frame does: parameters of lists and waits, and single items. */
export function operations<const T extends OperationTable>(table: T): T {
  const complete: Record<string, Operation> = {}
  for (const [id, operation] of Object.entries(table)) {
    complete[id] = withParameters(operation)
    for (const item of operation.items ?? []) complete[item.id] = withParameters(itemOperation(id, operation, item))
  }
  // The added parameters are read by the frame alone: no handler sees them in its query.
  return complete as T
}

function withParameters(operation: Operation): Operation {
  const { answer, list, query, waits } = operation
  if (answer === 'stream') return { ...operation, events: withFrameEvents(operation.events) }
  if (waits !== undefined) return { ...operation, query: waitQuery(waits, query) }
  return list ? { ...operation, query: listQuery(list, query, answer) } : operation
}

type StaticOr<S, Fallback> = S extends TSchema ? Static<S> : Fallback

export type Answer<O extends Operation> = O['answer'] extends TSchema
  ? Static<O['answer']>
  : O['answer'] extends 'free'
    ? unknown
    : string

/** An answer that PostgreSQL wrote as JSON already: a hundred rows are neither read nor written again. */
export class JsonText {
  readonly bytes: Buffer
  #tag: string | undefined
  /** @param text what the operation declares, to the letter: nothing is left out of it any more */
  constructor(text: string) {
    this.bytes = Buffer.from(text)
  }
  /** Computed once, for a page that is answered often. */
  get tag(): string {
    return (this.#tag ??= tagOf(this.bytes))
  }
  toString(): string {
    return this.bytes.toString()
  }
}

/** Entity tag, a weak one (RFC 9110, 8.8.1). */
export const tagOf = (json: string | Buffer) => `W/"${hash('sha1', json, 'base64url')}"`

/** Who calls. */
export interface Caller {
  readonly userId: string
  readonly email: string
  readonly role: 'Admin' | 'User'
  readonly via:
    | { readonly kind: 'session'; readonly sessionId: string }
    | { readonly kind: 'pat'; readonly patId: string }
  readonly scopes: ReadonlySet<Scope>
  /** The project a PAT is bound to. */
  readonly boundProjectId: string | null
  /** When the credential ends by itself; null: never. Open streams end with it. */
  readonly expiresAt: Date | null
}

export interface ProjectAccess {
  readonly id: string
  readonly slug: string
  readonly name: string
  readonly memberRole: MemberRole
}

/** What a mutating handler says for the audit log; who, from where and when are added by the frame. */
export interface AuditNote {
  readonly action: string
  readonly resourceType: string
  readonly resourceId?: string
  /** Never secrets. */
  readonly details?: Readonly<Record<string, unknown>>
}

export interface Call<O extends Operation> {
  readonly params: StaticOr<O['params'], Record<string, never>>
  readonly query: StaticOr<O['query'], Record<string, never>>
  /** Of a list: the part of it that is asked for. */
  readonly page: O['list'] extends object ? Page : undefined
  readonly body: O['rawBody'] extends true
    ? Buffer
    : O['upload'] extends object
      ? Readable
      : StaticOr<O['body'], undefined>
  readonly caller: O['auth'] extends 'bearer' ? Caller : Caller | undefined
  readonly project: O['project'] extends 'none' ? undefined : ProjectAccess
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly ip: string
  readonly requestId: string
  /** W3C Trace Context of this request, to hand on to agents. */
  readonly traceparent: string
  readonly log: FastifyBaseLogger
  /** Aborts when the client goes away or the server stops. */
  readonly signal: AbortSignal
  /** Sends a `Set-Cookie` with the answer (RFC 6265, 4.1). Not on streams. */
  setCookie(line: string): void
  /**
   * Records one audit row, written in the handler's own transaction. A mutation that records none is a bug.
   * `actor` names the user and project where the call itself has none (register, login).
   */
  audit(note: AuditNote, actor?: { readonly userId: string; readonly projectId?: string | undefined }): void
}

/** An event that a stream declares. */
export type SseEvent<Events extends EventTable = EventTable> = {
  [Name in keyof Events & string]: {
    readonly event: Name
    /** Must grow within one stream. */
    readonly id?: string
  } & (
    | {
        readonly data: Static<Events[Name]>
        /** All of it as it is written, when many streams send the same. */
        readonly text?: string
      }
    /** Several events at once, or an event that is text already. */
    | { readonly data?: undefined; readonly text: string | Uint8Array }
  )
}[keyof Events & string]

/** The server's side of one event stream. */
export interface EventStream<Events extends EventTable = EventTable> {
  /** What the client sent as `Last-Event-ID` (or `?last_event_id=`). */
  readonly lastEventId: string | undefined
  readonly signal: AbortSignal
  /** False when the client reads too slowly: its buffer is full, a `gap` was sent and the stream is being closed. */
  send(event: SseEvent<Events>): boolean
  /** Settles when little waits for the client, or the stream is over: who has much to send waits for it in between. */
  drained(): Promise<void>
  close(): void
}

type EventsOf<O extends Operation> = O['events'] extends EventTable ? O['events'] : Record<never, never>

/**
 * `read`: answers without changing anything; its answer may go nowhere (attempt.ts). `write`: whatever must happen before
 * (hashing, calls to others) happens first, then the returned function runs in ONE transaction together with its audit rows
 * and the stored answer of an Idempotency-Key; a retry of the same key never runs it again. `stream`: stays until the signal
 * aborts or it returns.
 */
export type Handler<O extends Operation> =
  | { readonly read: (call: Call<O>) => Promise<Answer<O> | JsonText | ListPart<Answer<O> | JsonText>> }
  | { readonly write: (call: Call<O>) => Promise<(tx: Tx) => Promise<Answer<O>>> }
  | { readonly stream: (call: Call<O>, stream: EventStream<EventsOf<O>>) => Promise<void> }

export type Handlers<T extends OperationTable> = { readonly [K in keyof T]?: Handler<T[K]> }

/** A feature as `app.ts` lists it. */
export interface Feature {
  readonly operations: OperationTable
  // biome-ignore lint: handlers of different operations have no common type
  readonly handlers: { readonly [id: string]: Handler<never> | undefined }
}

export function feature<T extends OperationTable>(table: T, handlers: Handlers<T>): Feature {
  return { operations: table, handlers: handlers as Feature['handlers'] }
}
