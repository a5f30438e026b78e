/** Sends one HTTP request with full control over its headers. */
import { request as open } from 'node:http'
import { text } from 'node:stream/consumers'

export interface Sent {
  readonly port: number
  readonly method: string
  readonly path: string
  readonly token?: string | undefined
  /** Request body: strings and buffers are sent unchanged, other values as JSON. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** Number of `Host` headers to send. */
  readonly hosts?: number
}

export interface Answered {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: the assertions of each test check the response
  readonly body: any
  readonly headers: NodeJS.Dict<string | string[]>
}

/** Sends a request. For an event stream, resolves once the response headers have arrived. */
export const send = ({ port, method, path, token, body, headers = {}, hosts = 1 }: Sent) =>
  new Promise<Answered>((resolve, reject) => {
    const bytes = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
    const all: Record<string, string> = {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(bytes === undefined
        ? {}
        : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(bytes)) }),
      connection: 'close',
      ...headers,
    }
    const pairs = [...Array.from({ length: hosts }, () => ['Host', 'localhost']), ...Object.entries(all)]
    const request = open({ port, host: '127.0.0.1', method, path, headers: pairs.flat(), agent: false }, response => {
      const { statusCode: status = 0, headers: found } = response
      const type = String(found['content-type'])
      if (type.startsWith('text/event-stream')) {
        request.destroy()
        return resolve({ status, headers: found, body: '' })
      }
      text(response).then(all => {
        resolve({ status, headers: found, body: type.includes('json') && all !== '' ? JSON.parse(all) : all })
        // Close the connection: it would stay open if the request announced a body that was never sent.
        request.destroy()
      }, reject)
    })
    request.on('error', reject)
    request.on('upgrade', ({ statusCode: status = 0, headers: found }, socket) => {
      socket.destroy()
      resolve({ status, headers: found, body: '' })
    })
    // A test that sets `Content-Length` announces too large a body, which the server rejects without waiting for it.
    if (headers['content-length'] === undefined) request.end(bytes)
    else request.flushHeaders()
  })
