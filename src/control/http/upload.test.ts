import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import Fastify from 'fastify'
import { expect, it } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import type { ApiError } from './errors.ts'
import { installUploadParser } from './upload.ts'

it('an upload fails if no more data arrives, but not while it waits for the handler to read', async () => {
  const app = Fastify()
  installUploadParser(app, 30)
  const slow = Promise.withResolvers<void>()
  const faults: string[] = []
  const mote = { id: 'x', operation: { upload: { maxBytes: 1 << 20 } } }
  app.put('/:when', { config: { mote } as never }, async request => {
    const { when } = request.params as { readonly when: string }
    if (when === 'later') await slow.promise
    return { read: (await text(request.body as NodeJS.ReadableStream)).length }
  })
  app.setErrorHandler<ApiError>(async (error, _request, reply) => {
    faults.push(error.message)
    return reply.code(error.status).send({ error: error.message })
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as { readonly port: number }
  const open = (when: string, body: string) => {
    const socket = connect(port, '127.0.0.1').setEncoding('utf8')
    socket.write(`PUT /${when} HTTP/1.1\r\nhost: x\r\ncontent-length: 8\r\ncontent-type: a/b\r\n\r\n${body}`)
    return socket
  }
  const waiting = open('later', '12345678')
  const stalled = open('now', '123')
  expect(String(await once(stalled, 'data'))).toContain('400 Bad Request')
  expect(faults).toEqual([expect.stringContaining('nothing more arrived')])
  slow.resolve()
  let answer = ''
  waiting.on('data', (part: string) => {
    answer += part
  })
  await until(() => answer.includes('{"read":8}'), { what: 'the answer' })
  for (const socket of [waiting, stalled]) socket.destroy()
  await app.close()
})
