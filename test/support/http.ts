import { request } from 'node:http'
import { text } from 'node:stream/consumers'

/** Sends a GET request with this host name through the gateway. */
export const viaGateway = (port: number, host: string, path = '/', address = '127.0.0.1') =>
  new Promise<{ status: number; body: string; headers: NodeJS.Dict<string | string[]> }>((resolve, reject) => {
    request({ port, host: address, path, headers: { host }, agent: false }, res => {
      // `text` rejects if the response body ends prematurely.
      text(res).then(body => resolve({ status: res.statusCode ?? 0, body, headers: res.headers }), reject)
    })
      .on('error', reject)
      .end()
  })
