import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

export interface Trace {
  /** 32 hex digits, the same for everything one request sets in motion. */
  readonly traceId: string
  /** What to send on: our own span as the parent. */
  readonly traceparent: string
}

const pattern = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(-.*)?$/

/** W3C Trace Context: goes on with the caller's trace if the header is valid, else begins one. */
export function traceOf(header: string | undefined): Trace {
  const found = header === undefined ? null : pattern.exec(header)
  // Version 00 has exactly four parts; only later versions may add some.
  const valid = found && !(found[3] !== undefined && header?.startsWith('00'))
  const traceId = valid ? found[1]! : randomHex()
  const flags = valid ? found[2]! : '00'
  return { traceId, traceparent: `00-${traceId}-${randomHex().slice(0, 16)}-${flags}` }
}

/** 32 digits. Node keeps random bytes for UUIDs in stock; asking the kernel each time cost 4 µs a request. */
const randomHex = () => randomUUID().replaceAll('-', '')

/** One trace per request, for the logger that is made before any hook runs and for the hooks. */
export function createTraces(): { of(raw: IncomingMessage): Trace } {
  const known = new WeakMap<IncomingMessage, Trace>()
  return {
    of(raw) {
      const { traceparent } = raw.headers
      const trace = known.get(raw) ?? traceOf(typeof traceparent === 'string' ? traceparent : undefined)
      known.set(raw, trace)
      return trace
    },
  }
}

/** Takes the caller's `X-Request-Id` if it is harmless in a log, else makes one. */
export function requestIdOf(header: string | readonly string[] | undefined): string {
  return typeof header === 'string' && /^[A-Za-z0-9._:/+=-]{1,128}$/.test(header) ? header : randomUUID()
}
