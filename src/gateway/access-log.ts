/**
 * Writes one line of JSON per finished request. The lines contain no secrets: no headers except the host, and no query
 * string, because clients put tokens into query strings.
 */
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import pino from 'pino'
import type { Exchange } from './exchange.ts'

export interface AccessLog {
  write(exchange: Exchange, status: number, protocol: string): void
  close(): Promise<void>
}

/** Opens the log. @param target a file, which is created or appended to, or `-` for standard output */
export async function openAccessLog(target: string, gatewayId: string): Promise<AccessLog> {
  if (target !== '-') await mkdir(dirname(target), { recursive: true })
  // Log lines are written in blocks of 8 KiB, or once a second. A system call per request would cost more than the rest
  // of the request.
  const destination = pino.destination({ dest: target === '-' ? 1 : target, sync: false, minLength: 8192 })
  const flushing = setInterval(() => destination.flush(), 1000)
  flushing.unref()
  const gateway = gatewayId
  return {
    write(exchange, status, protocol) {
      destination.write(`${JSON.stringify({ ...accessLine(exchange, status, protocol), gateway })}\n`)
    },
    close: () =>
      new Promise(resolve => {
        clearInterval(flushing)
        destination.once('close', resolve)
        destination.once('error', () => resolve())
        destination.end()
      }),
  }
}

/** Builds the log entry of a request. `status` 499: the client disconnected before the response. */
export function accessLine(exchange: Exchange, status: number, protocol: string) {
  const { request, route, hostname, client, secure, vmId, tries, bytes, page } = exchange
  const path = request.url ?? ''
  const query = path.indexOf('?')
  return {
    time: new Date().toISOString(),
    host: hostname ?? null,
    app: route?.appId ?? null,
    project: route?.projectId ?? null,
    method: request.method ?? '',
    path: (query === -1 ? path : path.slice(0, query)).slice(0, 1024),
    status,
    ms: Math.round((performance.now() - exchange.startedMs) * 10) / 10,
    bytes,
    client,
    protocol: secure ? `${protocol}+tls` : protocol,
    vm: vmId ?? null,
    tries,
    ...(page ? { gateway_said: page } : {}),
  }
}
