/**
 * The upper bound for a proxy in Node: it only forwards requests, without routes, limits, retries, metrics or a log.
 * For measurements only. Arguments: `<port> <port of the app> <undici|http>`; the last one selects the HTTP client.
 */
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { Pool } from 'undici'
import { serverOptions } from '../src/gateway/listener.ts'

const [port = '', upstream = '', client = ''] = process.argv.slice(2)

const agent = new Agent({ keepAlive: true, maxSockets: 256 })
function byHttp(from: IncomingMessage, to: ServerResponse): void {
  const options = { host: '127.0.0.1', port: Number(upstream), path: from.url, method: from.method, agent }
  request({ ...options, headers: from.headers }, answer => {
    to.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(to)
  })
    .on('error', () => to.destroy())
    .end()
}

const pool = new Pool(`http://127.0.0.1:${upstream}`, { connections: 256, bodyTimeout: 0 })
function byUndici(from: IncomingMessage, to: ServerResponse): void {
  const chunks: Buffer[] = []
  pool.dispatch(
    { path: from.url ?? '/', method: 'GET', headers: from.rawHeaders, body: null },
    {
      onRequestStart: () => undefined,
      onResponseStart: (_controller, status, headers, text) => void to.writeHead(status, text ?? '', headers),
      onResponseData: (_controller, chunk) => void chunks.push(chunk),
      onResponseEnd: () => void to.end(Buffer.concat(chunks).toString('latin1'), 'latin1'),
      onResponseError: () => void to.destroy(),
    },
  )
}

createServer(serverOptions, client === 'http' ? byHttp : byUndici).listen(Number(port), '127.0.0.1')
process.once('SIGTERM', () => process.exit(0))
