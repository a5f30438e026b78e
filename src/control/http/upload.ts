/** Bodies that are too large for memory: the handler reads them as they arrive. */
import { Transform } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { bodyLimitOf, tooLarge } from './body-limit.ts'

/**
 * The parser of routes whose operation has `upload`. The stream is one behind the request's own, so that a handler that
 * gives up does not cut the connection: the client still gets its answer, and what it sends meanwhile is dropped.
 */
export function installUploadParser(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: NodeJS.ReadableStream) => {
    const operation = request.routeOptions.config.mote?.operation
    const maxBytes = operation ? bodyLimitOf(operation) : 0
    if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(operation)
    let bytes = 0
    const limited = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        bytes += chunk.length
        if (bytes > maxBytes) done(tooLarge(operation))
        else done(null, chunk)
      },
    })
    // Whoever reads it hears of it; a handler that never does must not take the process down.
    limited.on('error', () => undefined)
    limited.once('close', () => payload.resume())
    return payload.pipe(limited)
  })
}
