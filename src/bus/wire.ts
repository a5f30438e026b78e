/** Encoding and validation shared by both buses, so that they accept the same data and options. */
import { BusError, type SubscribeOptions } from './bus.ts'
import type { StreamPolicy } from './streams.ts'
import { assertPattern, streamPolicyOf } from './subjects.ts'

/** Encodes data as JSON; `undefined` (from a handler that returns nothing) becomes null. */
export function encode(data: unknown): string {
  return JSON.stringify(data) ?? 'null'
}

export function decode(text: string): unknown {
  return JSON.parse(text)
}

/** The encoded data of a request: JSON, or bytes that the caller passed. */
export type WireRequest = string | Uint8Array

export const encodeRequest = (data: unknown): WireRequest => (data instanceof Uint8Array ? data : encode(data))
export const decodeRequest = (wire: WireRequest): unknown => (typeof wire === 'string' ? decode(wire) : wire)

export type Answer = { readonly ok: unknown } | { readonly error: string; readonly code?: string }

/** The encoded response: JSON of an `Answer`, or the bytes that the handler returned. */
export type WireAnswer = string | Uint8Array

export const encodeAnswer = (ok: unknown): WireAnswer =>
  ok instanceof Uint8Array ? ok : encode({ ok: ok ?? null } satisfies Answer)

export function failure(error: unknown): Answer {
  const message = error instanceof Error ? error.message : String(error)
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return code === undefined ? { error: message } : { error: message, code }
}

/** Returns the data of a response, or throws the error that the remote handler threw. */
export function unwrap(wire: WireAnswer): unknown {
  if (typeof wire !== 'string') return wire
  const answer = JSON.parse(wire) as Answer
  if ('ok' in answer) return answer.ok
  throw new BusError('remote', answer.error, answer.code === undefined ? {} : { remoteCode: answer.code })
}

/** Time within which a second publish with the same id is dropped. */
export const duplicateWindowMs = 120_000

/**
 * Validates the options of a subscription and returns the stream that it reads; undefined for a subject that is not
 * retained. @throws RangeError on options that cannot be combined.
 */
export function plan(pattern: string, options: SubscribeOptions): StreamPolicy | undefined {
  assertPattern(pattern)
  const stream = streamPolicyOf(pattern)
  if (stream !== undefined && options.group !== undefined)
    throw new RangeError(`${pattern} is retained: groups cannot share it`)
  if (stream === undefined && options.from !== undefined && options.from !== 'new') {
    throw new RangeError(
      `${pattern} is not retained: it can only be read from "new" (src/bus/streams.ts lists the retained subjects)`,
    )
  }
  return stream
}
