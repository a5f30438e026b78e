import type { FastifyRequest } from 'fastify'

/** Uploads may take longer, but not without progress (upload.ts). */
const bodyLimitMs = 120_000

/** Ends the connection of a request whose body is not complete in time. Node has only one limit for all requests. */
export function limitBodyTime(request: FastifyRequest, bodyMs = bodyLimitMs): void {
  const { headers, raw } = request
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
  if (!hasBody || request.routeOptions.config?.mote?.operation.upload) return
  const late = setTimeout(() => raw.destroy(), bodyMs).unref()
  raw.once('close', () => clearTimeout(late))
}
