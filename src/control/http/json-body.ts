/**
 * A strict parser for JSON bodies. A text must have only one interpretation: RFC 8259 leaves duplicate keys open, and
 * I-JSON (RFC 7493) forbids them. The parser also refuses values that PostgreSQL cannot store (NUL and lone surrogates
 * in text and jsonb) and keys that could change a prototype.
 */
import { ApiError } from './errors.ts'

export const maxDepth = 32
/**
 * Maximum number of members and entries, more than any request needs. A megabyte of tiny values blocks the event loop
 * for 50 ms.
 */
export const maxValues = 10_000
const forbiddenKeys = new Set(['__proto__', 'constructor'])

const bad = (message: string, cause?: unknown) => new ApiError('invalid_request', `The body ${message}.`, { cause })

/** Parses a JSON body. @returns the value; undefined for an empty body. @throws ApiError 400 */
export function parseJsonBody(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined
  const source = decode(bytes)
  try {
    // Scan first: refusing a deeply nested text or one with too many values takes a tenth of the time of parsing it.
    scan(source)
    return JSON.parse(source)
  } catch (cause) {
    throw cause instanceof SyntaxError ? bad(`is not valid JSON${where(cause)}`, cause) : cause
  }
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw bad('is not UTF-8', cause)
  }
}

/**
 * Returns the position at which JSON.parse failed. The rest of V8's message is dropped, because it quotes the client's
 * text.
 */
function where(cause: unknown): string {
  const found = cause instanceof Error ? /position (\d+)/.exec(cause.message) : null
  return found ? ` (at position ${found[1]})` : ''
}

const quote = 0x22
const backslash = 0x5c

/**
 * Checks depth, number of values, keys and strings of a JSON text in linear time. Its result on invalid JSON does not
 * matter, because JSON.parse refuses that afterwards; it only has to terminate.
 */
function scan(source: string): void {
  // The keys found so far in each object or array that is still open; null for an array.
  const open: (Set<string> | null)[] = []
  let at = 0
  let keyNext = false
  let values = 0
  while (at < source.length) {
    const char = source.charCodeAt(at)
    if (char === quote) {
      const end = endOfString(source, at)
      const keys = open.at(-1)
      if (keyNext && keys) checkKey(keys, text(source, at, end))
      else text(source, at, end)
      keyNext = false
      at = end
      continue
    }
    if (char === 0x7b || char === 0x5b) {
      open.push(char === 0x7b ? new Set() : null)
      if (open.length > maxDepth) throw bad(`is nested more than ${maxDepth} levels deep`)
      keyNext = char === 0x7b
    } else if (char === 0x7d || char === 0x5d) {
      open.pop()
      keyNext = false
    } else if (char === 0x2c) {
      keyNext = open.at(-1) !== null
      values += 1
      if (values > maxValues) throw bad(`exceeds the limit of ${maxValues} values`)
    }
    at += 1
  }
}

/** Skips a string. @returns the index after the closing quote @throws SyntaxError when there is none */
function endOfString(source: string, start: number): number {
  for (let end = source.indexOf('"', start + 1); end >= 0; end = source.indexOf('"', end + 1)) {
    let before = end
    while (source.charCodeAt(before - 1) === backslash) before--
    // Whether an even number of backslashes precedes the quote, which then is not escaped.
    if ((end - before) % 2 === 0) return end + 1
  }
  throw new SyntaxError('an unterminated string')
}

function text(source: string, start: number, end: number): string {
  const raw = source.slice(start + 1, end - 1)
  if (!raw.includes('\\')) return raw
  const value: unknown = JSON.parse(source.slice(start, end))
  if (typeof value !== 'string') throw new Error('BUG: a JSON string is a string')
  if (!isStorable(value))
    throw bad('has a string with a NUL character or an unpaired surrogate, which cannot be stored')
  return value
}

function checkKey(keys: Set<string>, key: string): void {
  if (forbiddenKeys.has(key)) throw bad(`has the key "${key}", which is not allowed`)
  if (keys.has(key)) throw bad('has the same key twice in one object')
  keys.add(key)
}

/** Returns whether PostgreSQL can store the text: it contains no NUL and no unpaired surrogate. */
export function isStorable(value: string): boolean {
  return !value.includes('\0') && value.isWellFormed()
}
