import { request } from 'node:http'
import { text } from 'node:stream/consumers'

/** Sends one GET through the gateway with this host name. */
export const viaGateway = (port: number, host: string, path = '/', address = '127.0.0.1') =>
  new Promise<{ status: number; body: string; headers: NodeJS.Dict<string | string[]> }>((resolve, reject) => {
    request({ port, host: address, path, headers: { host }, agent: false }, res => {
      // Rejects if the body ends prematurely.
      text(res).then(body => resolve({ status: res.statusCode ?? 0, body, headers: res.headers }), reject)
    })
      .on('error', reject)
      .end()
  })
