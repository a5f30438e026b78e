/** What both buses do to data and to options, so that neither accepts what the other would not. */
import { BusError, type SubscribeOptions } from './bus.ts'
import type { StreamPolicy } from './streams.ts'
import { assertPattern, keptBy } from './subjects.ts'

/** `undefined` (a handler without an answer) travels as null. */
export function encode(data: unknown): string {
  return JSON.stringify(data) ?? 'null'
}

export function decode(text: string): unknown {
  return JSON.parse(text)
}

export type Answer = { readonly ok: unknown } | { readonly error: string; readonly code?: string }

/** What travels back: JSON of an Answer, or the bytes that a handler answered, as they are. */
export type WireAnswer = string | Uint8Array

export const encodeAnswer = (ok: unknown): WireAnswer =>
  ok instanceof Uint8Array ? ok : encode({ ok: ok ?? null } satisfies Answer)

export function failure(error: unknown): Answer {
  const message = error instanceof Error ? error.message : String(error)
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return code === undefined ? { error: message } : { error: message, code }
}

/** The answer of a server of ours, or its error thrown as the caller sees it. */
export function unwrap(wire: WireAnswer): unknown {
  if (typeof wire !== 'string') return wire
  const answer = JSON.parse(wire) as Answer
  if ('ok' in answer) return answer.ok
  throw new BusError('remote', answer.error, answer.code === undefined ? {} : { remoteCode: answer.code })
}

/** How long the id of a publish is remembered. */
export const duplicateWindowMs = 120_000

/** Checks a subscription and says which stream it reads. @throws RangeError on options that make no sense together. */
export function plan(pattern: string, options: SubscribeOptions): StreamPolicy | undefined {
  assertPattern(pattern)
  const stream = keptBy(pattern)
  if (stream !== undefined && options.group !== undefined)
    throw new RangeError(`${pattern} is kept: groups cannot share it`)
  if (stream === undefined && options.from !== undefined && options.from !== 'new') {
    throw new RangeError(
      `nobody keeps ${pattern}: it can only be read from "new" (src/bus/streams.ts says what is kept)`,
    )
  }
  return stream
}
