import { request } from 'node:http'

/** One GET through the gateway, for a host name. */
export const viaGateway = (port: number, host: string, path = '/') =>
  new Promise<{ status: number; body: string; headers: NodeJS.Dict<string | string[]> }>((resolve, reject) => {
    request({ port, host: '127.0.0.1', path, headers: { host }, agent: false }, res => {
      let body = ''
      res.setEncoding('utf8').on('data', chunk => (body += chunk))
      res.on('end', () => resolve({ status: res.statusCode ?? 0, body, headers: res.headers }))
    })
      .on('error', reject)
      .end()
  })
