/** Bodies that are too large for memory: the handler reads them as a stream. */
import { Transform } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { bodyLimitOf, tooLarge } from './body-limit.ts'
import { ApiError } from './errors.ts'

/** Time without any data after which an upload fails. */
export const uploadIdleMs = 60_000

/**
 * Installs the parser of routes whose operation has `upload`. The handler gets a stream piped from the request, so a
 * handler that gives up does not close the connection: the client still gets its response, and the rest of its upload
 * is discarded.
 */
export function installUploadParser(app: FastifyInstance, idleMs = uploadIdleMs): void {
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
    // The handler gets the error when it reads the stream. Without this listener, an error without a reader would crash
    // the process.
    limited.on('error', () => undefined)
    let seen = 0
    const idle = setInterval(() => {
      // Data that waits for the handler does not count as a stalled upload, because the client has sent it.
      if (bytes === seen && limited.readableLength === 0) limited.destroy(stalled())
      seen = bytes
    }, idleMs).unref()
    limited.once('end', () => clearInterval(idle))
    limited.once('close', () => {
      clearInterval(idle)
      payload.resume()
    })
    return payload.pipe(limited)
  })
}

const stalled = () => new ApiError('invalid_request', 'The upload stopped: nothing more arrived. Send it again.')
