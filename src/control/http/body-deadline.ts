import type { FastifyRequest } from 'fastify'

/** Time limit for receiving a body. Uploads may take longer, but not without progress (upload.ts). */
const bodyLimitMs = 120_000

/**
 * Closes the connection if the request body is not complete in time. Node's own time limit cannot differ between
 * requests.
 */
export function limitBodyTime(request: FastifyRequest, bodyMs = bodyLimitMs): void {
  const { headers, raw } = request
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
  if (!hasBody || request.routeOptions.config?.mote?.operation.upload) return
  const late = setTimeout(() => raw.destroy(), bodyMs).unref()
  raw.once('close', () => clearTimeout(late))
}
