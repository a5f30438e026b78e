import { once } from 'node:events'
import { connect } from 'node:net'
import Fastify from 'fastify'
import { expect, it } from 'vitest'
import { limitBodyTime } from './body-deadline.ts'

it('a connection is closed if a request body does not arrive in time, but not if the request has no body', async () => {
  const app = Fastify()
  app.addHook('onRequest', async request => limitBodyTime(request, 30))
  app.route({ method: ['GET', 'POST'], url: '/', handler: async () => 'answered' })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as { readonly port: number }
  const open = (lines: string) => {
    const socket = connect(port, '127.0.0.1').setEncoding('utf8')
    socket.on('error', () => undefined)
    socket.write(`${lines}\r\nhost: x\r\n\r\n`)
    return socket
  }
  const body = 'POST / HTTP/1.1\r\ncontent-type: application/json'
  await Promise.all(
    [`${body}\r\ncontent-length: 8`, `${body}\r\ntransfer-encoding: chunked`].map(head => once(open(head), 'close')),
  )
  const without = open('GET / HTTP/1.1')
  expect(String(await once(without, 'data'))).toContain('answered')
  expect(without.destroyed).toBe(false)
  without.destroy()
  await app.close()
})
