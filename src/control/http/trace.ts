import { randomBytes } from 'node:crypto'
import { newId } from '../../lib/ids.ts'

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
  const traceId = valid ? found[1]! : randomBytes(16).toString('hex')
  const flags = valid ? found[2]! : '00'
  return { traceId, traceparent: `00-${traceId}-${randomBytes(8).toString('hex')}-${flags}` }
}

/** Takes the caller's `X-Request-Id` if it is harmless in a log, else makes one. */
export function requestIdOf(header: string | readonly string[] | undefined): string {
  return typeof header === 'string' && /^[A-Za-z0-9._:/+=-]{1,128}$/.test(header) ? header : newId()
}
