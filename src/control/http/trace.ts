import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

export interface Trace {
  /** Trace id: 32 hex digits, shared by everything that one request causes. */
  readonly traceId: string
  /** The `traceparent` header to pass on, with our own span as the parent. */
  readonly traceparent: string
}

const pattern = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(-.*)?$/

/** W3C Trace Context: continues the caller's trace if the header is valid, else starts a new one. */
export function traceOf(header: string | undefined): Trace {
  const found = header === undefined ? null : pattern.exec(header)
  // A traceparent of version 00 has exactly four parts; only later versions may have more.
  const valid = found && !(found[3] !== undefined && header?.startsWith('00'))
  const traceId = valid ? found[1]! : randomHex()
  const flags = valid ? found[2]! : '00'
  return { traceId, traceparent: `00-${traceId}-${randomHex().slice(0, 16)}-${flags}` }
}

/**
 * Generates 32 hex digits from randomUUID, for which Node caches random bytes; a system call each time costs 4 µs per
 * request.
 */
const randomHex = () => randomUUID().replaceAll('-', '')

/**
 * Keeps one trace per request, for two users of it: the logger, which is created before any hook runs, and the hooks.
 */
export function createTraces(): { of(raw: IncomingMessage): Trace } {
  const known = new WeakMap<IncomingMessage, Trace>()
  return {
    of(raw) {
      const found = known.get(raw)
      if (found) return found
      const { traceparent } = raw.headers
      const trace = traceOf(typeof traceparent === 'string' ? traceparent : undefined)
      known.set(raw, trace)
      return trace
    },
  }
}

/** Returns the caller's `X-Request-Id` if it is safe to log, else a new one. */
export function requestIdOf(header: string | readonly string[] | undefined): string {
  return typeof header === 'string' && /^[A-Za-z0-9._:/+=-]{1,128}$/.test(header) ? header : randomUUID()
}
