/** The few HTTP calls that the commands of today make. */
export class ApiFailure extends Error {
  readonly status: number
  readonly code: string | undefined
  constructor(status: number, body: { readonly error?: string; readonly code?: string }) {
    super(body.error ?? `the API answered ${status}`)
    this.name = 'ApiFailure'
    this.status = status
    this.code = body.code
  }
}

export interface ApiClient {
  /** @throws ApiFailure for every answer but 2xx */
  call<T>(method: string, path: string, body?: unknown): Promise<T>
  /** Server-sent events until the signal aborts. */
  events(
    path: string,
    signal: AbortSignal,
  ): AsyncGenerator<{ readonly event: string; readonly data: Record<string, unknown> }>
}

export function apiClient(baseUrl: string, token: () => string | undefined): ApiClient {
  const headers = (): Record<string, string> => {
    const value = token()
    return value ? { authorization: `Bearer ${value}` } : {}
  }
  return {
    async call<T>(method: string, path: string, body?: unknown): Promise<T> {
      const response = await fetch(baseUrl + path, {
        method,
        headers: { ...headers(), ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const answer: unknown = await response.json()
      if (!response.ok) throw new ApiFailure(response.status, answer as { error?: string; code?: string })
      // The server checks its answers against the contract; the caller names the part it uses.
      return answer as T
    },
    async *events(path, signal) {
      const response = await fetch(baseUrl + path, { headers: headers(), signal })
      if (!response.ok || !response.body) throw new ApiFailure(response.status, {})
      let buffer = ''
      for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
        buffer += chunk
        for (let end = buffer.indexOf('\n\n'); end !== -1; end = buffer.indexOf('\n\n')) {
          const lines = buffer.slice(0, end).split('\n')
          buffer = buffer.slice(end + 2)
          const event =
            lines
              .find(line => line.startsWith('event:'))
              ?.slice(6)
              .trim() ?? 'message'
          const data = lines
            .filter(line => line.startsWith('data:'))
            .map(line => line.slice(5))
            .join('\n')
          if (data !== '') yield { event, data: JSON.parse(data) }
        }
      }
    },
  }
}
