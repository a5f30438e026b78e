/** Bare Node that serves event streams: what the product's streams are compared with. Each message of the parent goes to all. */
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

/** Each of `count` events is made into text once and written to everybody. */
process.on('message', ({ count, data }: { readonly count: number; readonly data: object }) => {
  for (let n = 1; n <= count; n++) {
    const text = `id: ${n}\nevent: deployment.status\ndata: ${JSON.stringify({ ...data, n, at: new Date().toISOString() })}\n\n`
    for (const response of open) response.write(text)
  }
})
