/**
 * The upper bound for a server in Node: a bare server that answers every request with the same bytes, which the parent
 * sends in its first message.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

process.once('disconnect', () => process.exit(1))
process.once('message', (text: string) => {
  const body = Buffer.from(text)
  const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': body.length }
  const server = createServer((request, response) => {
    request.resume().once('end', () => response.writeHead(200, headers).end(body))
  })
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
})
