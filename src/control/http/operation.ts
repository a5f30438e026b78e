/**
 * Defines how operations of the API are declared and implemented. Each feature folder declares its operations as data
 * in `schema.ts` (used for validation, serialization, OpenAPI, the client and the enumerating tests) and implements
 * them in `routes.ts`. The server does not start if an operation has no handler.
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

export type Scope = 'read' | 'exec' | 'deploy' | 'write' | 'admin'
export type MemberRole = 'owner' | 'admin' | 'member' | 'viewer'

export interface Operation {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path template, such as `/v1/apps/{app_name}`. */
  readonly path: string
  readonly tag: string
  /** Summary of a few words in the imperative, for the OpenAPI document. */
  readonly summary: string
  /** Description of one to three sentences: the effect, later effects, and caveats for the caller. */
  readonly description?: string
  /** `bearer`: a session JWT or a PAT. `none`: the credential is ignored. */
  readonly auth: 'bearer' | 'none'
  /** Scope that the token needs. Only with `bearer`. */
  readonly scope: Scope
  /**
   * The project that the operation acts in. `selected`: X-Project header, ?project=, the token's project or the user's
   * default project. `path`: the path parameter `tenant_slug`. `none`: the operation acts on the account or the
   * installation.
   */
  readonly project: 'selected' | 'path' | 'none'
  readonly params?: TObject
  readonly query?: TObject
  readonly body?: TSchema
  /**
   * Marks the body as required in the specification even if all its fields are optional. Default: required if any field
   * is.
   */
  readonly bodyRequired?: boolean
  /** JSON schema of the 200 response, or its kind: SSE stream, WebSocket, bytes, plain text, HTML, free-form JSON. */
  readonly answer: TSchema | 'stream' | 'socket' | 'bytes' | 'text' | 'html' | 'free'
  /** Events of a stream by name, with the schema of their data. Required with `stream`. */
  readonly events?: EventTable
  /** Subprotocol of the WebSocket. Required with `socket`. */
  readonly subprotocol?: string
  /** The handler gets the unparsed bytes of the body (webhooks). */
  readonly rawBody?: true
  /** Maximum body size, if it does not follow from the schema (body-limit.ts). */
  readonly maxBytes?: number
  /** The handler gets the body as a stream, which fails with 413 beyond this many bytes. */
  readonly upload?: { readonly maxBytes: number }
  /** The page has forms that post to this server. Only with `html`. */
  readonly forms?: true
  /** The response is a list. The server adds `limit`, `cursor`, `offset`, the filters and the `Link` header. */
  readonly list?: ListRule
  /** Operations that return one item of this list each. They need no handler. */
  readonly items?: readonly ItemRule[]
  /** The list that this operation returns one item of. */
  readonly itemOf?: { readonly list: string; readonly by: string; readonly within?: string }
  /** Error statuses of this operation, in addition to those of every operation of its kind. */
  readonly fails?: readonly (401 | 403 | 404 | 409 | 416)[]
  /**
   * Path of the resource that the operation changes, if it differs from its own. `If-Match` is compared with that
   * resource.
   */
  readonly changes?: string
  /** Member of the response that `?wait=` can wait for. */
  readonly waits?: string
  /** The operation is an addition to the 106 operations of the specification (docs/contract.md). */
  readonly addition?: true
  /** A POST without an audit entry, because it changes nothing (validation) or its effect is not one transaction. */
  readonly unaudited?: true
  /** What authorizes the caller instead of, or in addition to, a credential. Required with `auth: 'none'`. */
  readonly proof?: string
  /** Deletes the account or changes how it is protected: also needs the password, a code or a recent sign-in. */
  readonly stepUp?: true
  /** Restricted to users whose role is Admin. */
  readonly adminOnly?: true
  /**
   * Rate limit in addition to the general one. `login`: per IP address and e-mail address. `create`: for costly
   * creations, per project and second. `machine`: for webhooks and storage nodes. `unlimited`: none, for health probes.
   */
  readonly throttle?: 'login' | 'create' | 'machine' | 'unlimited'
  /** The response contains a secret, so it is not cached and has no entity tag. */
  readonly secretAnswer?: true
  /** The response may set a cookie. */
  readonly setsCookie?: true
  /** `read` calls other services (an agent, a source host), so it must not run before the caller is authenticated. */
  readonly asksOthers?: true
}

export type EventTable = { readonly [name: string]: TSchema }

export type OperationTable = { readonly [id: string]: Operation }

/**
 * Keeps the literal types of a declaration and adds the common parameters of lists and waits, and the operations for
 * single items.
 */
export function operations<const T extends OperationTable>(table: T): T {
  const complete: Record<string, Operation> = {}
  for (const [id, operation] of Object.entries(table)) {
    complete[id] = withParameters(operation)
    for (const item of operation.items ?? []) complete[item.id] = withParameters(itemOperation(id, operation, item))
  }
  // The type does not have the added parameters, because only the server reads them; handlers do not get them.
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

/** A response that PostgreSQL wrote as JSON text. It is sent as it is, without being parsed and serialized again. */
export class JsonText {
  readonly bytes: Buffer
  #tag: string | undefined
  /** @param text must match the declared response: undeclared members are not removed from it */
  constructor(text: string) {
    this.bytes = Buffer.from(text)
  }
  /** Size of the JSON text in bytes. */
  get length(): number {
    return this.bytes.length
  }
  /** The entity tag is computed once, because a cached page is sent many times. */
  get tag(): string {
    return (this.#tag ??= tagOf(this.bytes))
  }
  toString(): string {
    return this.bytes.toString()
  }
}

/** A weak entity tag (RFC 9110, 8.8.1). */
export const tagOf = (json: string | Buffer) => `W/"${hash('sha1', json, 'base64url')}"`

/** The authenticated user of a request. */
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
  /** Expiry of the credential, at which its open streams are closed; null: never. */
  readonly expiresAt: Date | null
}

export interface ProjectAccess {
  readonly id: string
  readonly slug: string
  readonly name: string
  readonly memberRole: MemberRole
}

/** A handler's part of an audit row. The server adds the user, the origin and the time. */
export interface AuditNote {
  readonly action: string
  readonly resourceType: string
  readonly resourceId?: string
  /** Additional data for the audit row. Must not contain secrets. */
  readonly details?: Readonly<Record<string, unknown>>
}

export interface Call<O extends Operation> {
  readonly params: StaticOr<O['params'], Record<string, never>>
  readonly query: StaticOr<O['query'], Record<string, never>>
  /** The requested page of a list. */
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
  /** W3C Trace Context of this request, to pass on to agents. */
  readonly traceparent: string
  readonly log: FastifyBaseLogger
  /** Signal that aborts when the client disconnects or the server stops. */
  readonly signal: AbortSignal
  /** Adds a `Set-Cookie` header to the response (RFC 6265, 4.1). Not available on streams. */
  setCookie(line: string): void
  /**
   * Adds one audit row to the handler's own transaction. A mutation without an audit row is a bug. `actor` names the
   * user and project if the call itself has none (register, login).
   */
  audit(note: AuditNote, actor?: { readonly userId: string; readonly projectId?: string | undefined }): void
}

/** An event that a stream declares. */
export type SseEvent<Events extends EventTable = EventTable> = {
  [Name in keyof Events & string]: {
    readonly event: Name
    /** Id of the event. Ids must increase within one stream. */
    readonly id?: string
  } & (
    | {
        readonly data: Static<Events[Name]>
        /** The encoded event, shared by streams that send the same event. */
        readonly text?: string
      }
    /** The encoded form of several events, or of one event that is encoded only once. */
    | { readonly data?: undefined; readonly text: string | Uint8Array }
  )
}[keyof Events & string]

/** The server side of one event stream. */
export interface EventStream<Events extends EventTable = EventTable> {
  /** Value of the `Last-Event-ID` header (or `?last_event_id=`). */
  readonly lastEventId: string | undefined
  readonly signal: AbortSignal
  /**
   * Returns false if the client reads too slowly: its buffer is full, a `gap` was sent and the stream is being closed.
   */
  send(event: SseEvent<Events>): boolean
  /** Settles when the send buffer has room again or the stream has ended. Await it between large batches. */
  drained(): Promise<void>
  close(): void
}

/** A file to send, or a part of one. */
export interface ByteAnswer {
  /** File name that a browser suggests for saving. */
  readonly name: string
  /** Changes with the content of the file; becomes the entity tag. Letters, digits, dots and hyphens. */
  readonly version: string
  /** Size of the whole file; undefined: unknown, the response ends with `body`. */
  readonly sizeBytes: number | undefined
  /** The part of the file that `body` contains, if not the whole file. Needs `sizeBytes`. */
  readonly part?: { readonly first: number; readonly count: number } | undefined
  /** The bytes to send; undefined if the requested range starts after the end of the file. */
  readonly body: AsyncIterable<Uint8Array> | undefined
}

/** The server side of one WebSocket. */
export interface MessageSocket {
  /** Signal that aborts when the connection is closed by either side. */
  readonly signal: AbortSignal
  /** Calls `take` with each message: a string for a text message, bytes for a binary one. */
  onMessage(take: (message: string | Buffer) => void): void
  /** Sends a message if the connection is open. @param onSent called when the message's memory is no longer used */
  send(message: string | Uint8Array, onSent?: () => void): void
  /** Closes the connection. @param code close code (RFC 6455, 7.4) */
  close(code: number, reason: string): void
}

type EventsOf<O extends Operation> = O['events'] extends EventTable ? O['events'] : Record<never, never>

/**
 * `read` returns a response without changing anything; it may be discarded (attempt.ts). `write` first does the
 * preparation (hashing, calls to other services) and returns a function, which runs in ONE transaction together with
 * the audit rows and the stored response of an Idempotency-Key; a retry with the same key does not run it again.
 * `stream` runs until the signal aborts or it returns. `bytes` returns a file to send. `socket` may refuse, and returns
 * a function that runs with the open WebSocket until it returns.
 */
export type Handler<O extends Operation> =
  | { readonly read: (call: Call<O>) => Promise<Answer<O> | JsonText | ListPart<Answer<O> | JsonText>> }
  | { readonly write: (call: Call<O>) => Promise<(tx: Tx) => Promise<Answer<O>>> }
  | { readonly bytes: (call: Call<O>) => Promise<ByteAnswer> }
  | { readonly socket: (call: Call<O>) => Promise<(socket: MessageSocket) => Promise<void>> }
  | { readonly stream: (call: Call<O>, stream: EventStream<EventsOf<O>>) => Promise<void> }

export type Handlers<T extends OperationTable> = { readonly [K in keyof T]?: Handler<T[K]> }

/** A feature: declared operations and their handlers. `app.ts` lists all features. */
export interface Feature {
  readonly operations: OperationTable
  // biome-ignore lint: handlers of different operations have no common type
  readonly handlers: { readonly [id: string]: Handler<never> | undefined }
}

export function feature<T extends OperationTable>(table: T, handlers: Handlers<T>): Feature {
  return { operations: table, handlers: handlers as Feature['handlers'] }
}
