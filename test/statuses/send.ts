/** One request to a server of the tests, with every byte of its head as the test wants it. */
import { request as open } from 'node:http'
import { text } from 'node:stream/consumers'

export interface Sent {
  readonly port: number
  readonly method: string
  readonly path: string
  readonly token?: string | undefined
  /** Sent as JSON; text and bytes are sent as they are. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** Sends the header `Host` so often. */
  readonly hosts?: number
}

export interface Answered {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: answers are checked by the assertions of each test
  readonly body: any
  readonly headers: NodeJS.Dict<string | string[]>
}

/** Event streams end once their head has arrived. */
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
        // A body that was announced and not sent would keep the connection.
        request.destroy()
      }, reject)
    })
    request.on('error', reject)
    // A head alone is enough to be refused when it announces too much.
    if (headers['content-length'] === undefined) request.end(bytes)
    else request.flushHeaders()
  })
