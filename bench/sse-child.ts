/**
 * Serves event streams with bare Node, for comparison with the product's streams. For each message of the parent
 * process, it sends events to all clients.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const open = new Set<ServerResponse>()
const server = createServer((request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store' })
  response.write('event: snapshot\ndata: {}\n\n')
  open.add(response)
  request.once('close', () => open.delete(response))
})
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))

process.once('disconnect', () => process.exit(1))

/** Serializes each of `count` events once and writes it to all clients. */
process.on('message', ({ count, data }: { readonly count: number; readonly data: object }) => {
  for (let n = 1; n <= count; n++) {
    const text = `id: ${n}\nevent: deployment.status\ndata: ${JSON.stringify({ ...data, n, at: new Date().toISOString() })}\n\n`
    for (const response of open) response.write(text)
  }
})
