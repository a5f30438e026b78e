/** Sends requests: credentials, retries, and event streams that reconnect. Uses only `fetch`. */
import { ApiFailure, failureOf } from './errors.ts'
import { readEvents, type StreamEvent } from './events.ts'
import { backoffMs, waitMs } from './wait.ts'

export interface ClientOptions {
  /** Origin of the API, for example `https://cloud.example.com`; empty in a browser on that origin. */
  readonly baseUrl: string
  /** Returns the current credential: a session JWT or `svc_pat_...`. */
  readonly token?: (() => string | undefined) | undefined
  /**
   * Called once after a 401. Returns true if a new credential is available; the request is then retried.
   * @param refused the refused credential
   */
  readonly renew?: ((refused: string) => Promise<boolean>) | undefined
  /** Slug or id of the project, unless a call names another. */
  readonly project?: (() => string | undefined) | undefined
  /** Maximum retries of a call that is safe to repeat; default 2. */
  readonly retries?: number | undefined
  readonly fetch?: typeof fetch | undefined
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  readonly project?: string | undefined
  /**
   * Key with which the server recognizes a repeated call. Default for POST, PATCH and DELETE with a credential: a
   * random key, which all retries of the call share.
   */
  readonly idempotencyKey?: string | undefined
}

export interface ByteOptions extends Omit<CallOptions, 'idempotencyKey'> {
  /** Value of the `Range` header, for example `bytes=1024-`. */
  readonly range?: string | undefined
  /** Value of the `If-Range` header: the `ETag` of the bytes that were already received. */
  readonly ifRange?: string | undefined
}

export interface StreamOptions extends Omit<CallOptions, 'idempotencyKey'> {
  /** Id of an event: the stream resumes after it. */
  readonly lastEventId?: string | undefined
  /** Called with `open` once the server has responded, and with `waiting` before a retry. */
  readonly onState?: ((state: 'open' | 'waiting') => void) | undefined
}

export interface ApiRequest {
  readonly method: string
  readonly path: string
  readonly query?:
    | Readonly<Record<string, string | number | boolean | readonly string[] | null | undefined>>
    | undefined
  readonly body?: unknown
  /** Whether the operation needs no credential. */
  readonly open?: true
}

export interface Transport {
  /**
   * Sends a request and parses the JSON response.
   * @throws ApiFailure for a response other than 2xx; TypeError if the server cannot be reached
   */
  json<T>(request: ApiRequest, options?: CallOptions): Promise<T>
  text(request: ApiRequest, options?: CallOptions): Promise<string>
  /**
   * Resolves with a response as soon as its head has arrived. Reading the body fails if the connection is lost; request
   * the rest with `range`.
   */
  bytes(request: ApiRequest, options?: ByteOptions): Promise<Response>
  /**
   * Yields the events of a stream. Reconnects and resumes after the last event until the signal aborts.
   * @throws ApiFailure if the server refuses (4xx, 501)
   */
  stream<Events>(request: ApiRequest, options?: StreamOptions): AsyncGenerator<StreamEvent<Events>>
}

const firstWaitMs = 250
const longestWaitMs = 30_000

export function createTransport(options: ClientOptions): Transport {
  const call = (request: ApiRequest, callOptions: CallOptions) =>
    repeated(options, request, callOptions.signal, headersOf(options, request, callOptions))
  return {
    async json<T>(request: ApiRequest, callOptions: CallOptions = {}) {
      const response = await call(request, callOptions)
      // The type can be trusted: it is generated from the OpenAPI document, against which the server checks its
      // responses.
      return (await response.json()) as T
    },
    text: async (request, callOptions = {}) => (await call(request, callOptions)).text(),
    bytes: (request, { range, ifRange, ...callOptions } = {}) => {
      const headers = headersOf(options, request, callOptions)
      if (range !== undefined) headers['range'] = range
      if (ifRange !== undefined) headers['if-range'] = ifRange
      return repeated(options, request, callOptions.signal, headers)
    },
    stream: <Events>(request: ApiRequest, streamOptions: StreamOptions = {}) =>
      // The type can be trusted: it is generated from the OpenAPI document, which declares the events.
      stream(options, request, streamOptions) as AsyncGenerator<StreamEvent<Events>>,
  }
}

function headersOf(options: ClientOptions, request: ApiRequest, call: CallOptions): Record<string, string> {
  const project = call.project ?? options.project?.()
  const isBytes = typeof request.body === 'string' || request.body instanceof Uint8Array || request.body instanceof Blob
  return {
    accept: 'application/json, text/event-stream, */*;q=0.1',
    ...(request.body === undefined
      ? {}
      : { 'content-type': isBytes ? 'application/octet-stream' : 'application/json' }),
    ...(project === undefined || request.open ? {} : { 'x-project': project }),
    ...keyOf(request, call),
  }
}

function keyOf({ method, open }: ApiRequest, { idempotencyKey }: CallOptions): Record<string, string> {
  if (idempotencyKey !== undefined) return { 'idempotency-key': idempotencyKey }
  return takesKey(method) && !open ? { 'idempotency-key': newKey() } : {}
}

/**
 * Returns a random value for `idempotencyKey` (128 bits). Not `crypto.randomUUID`: browsers provide that only on https.
 */
export const newKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map(byte => byte.toString(16).padStart(2, '0')).join('')

function urlOf(options: ClientOptions, { path, query }: ApiRequest): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {}))
    for (const one of Array.isArray(value) ? value : [value])
      if (one !== undefined && one !== null) search.append(name, String(one))
  return `${options.baseUrl}${path}${search.size > 0 ? `?${search}` : ''}`
}

/** Encodes a body: bytes are sent unchanged, anything else as JSON. */
function payloadOf(body: unknown): string | Uint8Array<ArrayBuffer> | Blob | undefined {
  if (body === undefined || typeof body === 'string' || body instanceof Blob) return body
  return body instanceof Uint8Array ? new Uint8Array(body) : JSON.stringify(body)
}

/** Sends the request once, and a second time if the credential was refused and could be renewed. */
async function attempt(
  options: ClientOptions,
  request: ApiRequest,
  headers: Record<string, string>,
  signal: AbortSignal | undefined,
): Promise<Response> {
  const body = payloadOf(request.body)
  const send = (token: string | undefined) =>
    (options.fetch ?? fetch)(urlOf(options, request), {
      method: request.method,
      headers: { ...headers, ...(token === undefined || request.open ? {} : { authorization: `Bearer ${token}` }) },
      ...(body === undefined ? {} : { body }),
      ...(signal ? { signal } : {}),
    })
  const token = options.token?.()
  const response = await send(token)
  if (response.status !== 401 || request.open || token === undefined) return response
  return (await options.renew?.(token)) ? send(options.token?.()) : response
}

/** Whether the request may be sent again if the response to the first attempt was lost. */
const isRepeatable = ({ method, open }: ApiRequest) => method === 'GET' || method === 'PUT' || !open

/**
 * Whether requests with this method get an idempotency key. The server answers a repeated key with its first response.
 */
const takesKey = (method: string) => method === 'POST' || method === 'PATCH' || method === 'DELETE'

async function repeated(
  options: ClientOptions,
  request: ApiRequest,
  signal: AbortSignal | undefined,
  headers: Record<string, string>,
): Promise<Response> {
  for (let tried = 0; ; tried++) {
    const last = tried >= (options.retries ?? 2)
    const outcome = await attempt(options, request, headers, signal).catch((cause: unknown) => {
      if (last || signal?.aborted || !isRepeatable(request)) throw cause
      return undefined
    })
    if (outcome?.ok) return outcome
    const failure = outcome && (await failureOf(outcome))
    if (failure && (last || !isPassing(failure, request))) throw failure
    await waitMs(failure?.retryAfterMs ?? backoffMs(tried, firstWaitMs, longestWaitMs, Math.random), signal)
    signal?.throwIfAborted()
  }
}

/**
 * Whether the request may be retried after this failure. A 429 means that the server did nothing; any other failure
 * must be temporary and the request repeatable.
 */
function isPassing({ status, retryAfterMs }: ApiFailure, request: ApiRequest): boolean {
  if ((retryAfterMs ?? 0) > longestWaitMs) return false
  return status === 429 || ([502, 503, 504].includes(status) && isRepeatable(request))
}

async function* stream(
  options: ClientOptions,
  request: ApiRequest,
  { lastEventId, onState, ...call }: StreamOptions,
): AsyncGenerator<StreamEvent> {
  let lastId = lastEventId
  let retryMs = 1000
  let failures = 0
  const { signal } = call
  while (!signal?.aborted) {
    try {
      const headers = headersOf(options, request, call)
      if (lastId !== undefined) headers['last-event-id'] = lastId
      const response = await attempt(options, request, headers, signal)
      if (!response.ok || !response.body) throw await failureOf(response)
      onState?.('open')
      for await (const part of readEvents(response.body)) {
        failures = 0
        if ('retryMs' in part) retryMs = part.retryMs
        else {
          lastId = part.event.id ?? lastId
          yield part.event
        }
      }
    } catch (cause) {
      if (signal?.aborted) return
      if (cause instanceof ApiFailure && cause.status !== 429 && (cause.status < 500 || cause.status === 501))
        throw cause
      retryMs = cause instanceof ApiFailure && cause.retryAfterMs ? cause.retryAfterMs : retryMs
    }
    onState?.('waiting')
    await waitMs(backoffMs(failures++, retryMs, longestWaitMs, Math.random), signal)
  }
}
