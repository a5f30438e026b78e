/** A small API client for tests: sends and returns JSON, and uses one credential per instance. */
import { recordSecretsOf } from './log.ts'

export interface Answer<T = unknown> {
  readonly status: number
  readonly body: T
  readonly headers: Headers
}

export interface Api {
  // biome-ignore lint/suspicious/noExplicitAny: the assertions of each test check the response
  call<T = any>(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer<T>>
  // biome-ignore lint/suspicious/noExplicitAny: the assertions of each test check the response
  get<T = any>(path: string, headers?: Record<string, string>): Promise<Answer<T>>
  // biome-ignore lint/suspicious/noExplicitAny: the assertions of each test check the response
  post<T = any>(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer<T>>
  // biome-ignore lint/suspicious/noExplicitAny: the assertions of each test check the response
  delete<T = any>(path: string): Promise<Answer<T>>
  /** Yields events of a stream until the signal aborts. */
  events(path: string, signal: AbortSignal, headers?: Record<string, string>): AsyncGenerator<StreamEvent>
  as(token: string): Api
  readonly token: string | undefined
}

export interface StreamEvent {
  readonly event: string
  readonly id: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: the assertions of each test check the event
  readonly data: any
}

export function api(baseUrl: string, token?: string): Api {
  const credentials: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {}
  const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const response = await fetch(baseUrl + path, {
      method,
      headers: { ...credentials, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.includes('json')
    const answer = isJson ? JSON.parse(text) : text
    recordSecretsOf({ request: body, answer })
    return { status: response.status, body: answer, headers: response.headers }
  }
  return {
    call,
    get: (path, headers) => call('GET', path, undefined, headers),
    post: (path, body, headers) => call('POST', path, body, headers),
    delete: path => call('DELETE', path),
    as: other => api(baseUrl, other),
    token,
    async *events(path, signal, headers = {}) {
      const response = await fetch(baseUrl + path, { headers: { ...credentials, ...headers }, signal })
      if (!response.ok || !response.body) throw new Error(`${path}: ${response.status} ${await response.text()}`)
      yield* parseEvents(response.body.pipeThrough(new TextDecoderStream()))
    },
  }
}

/** Parses server-sent events (WHATWG HTML, 9.2.6), and skips comments. */
async function* parseEvents(stream: ReadableStream<string>): AsyncGenerator<StreamEvent> {
  let buffer = ''
  for await (const chunk of stream) {
    buffer += chunk
    for (let end = buffer.indexOf('\n\n'); end !== -1; end = buffer.indexOf('\n\n')) {
      const fields = new Map<string, string>()
      for (const line of buffer.slice(0, end).split('\n')) {
        const colon = line.indexOf(':')
        if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1).trimStart())
      }
      buffer = buffer.slice(end + 2)
      const data = fields.get('data')
      if (data !== undefined)
        yield { event: fields.get('event') ?? 'message', id: fields.get('id'), data: JSON.parse(data) }
    }
  }
}
