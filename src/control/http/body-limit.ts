/**
 * Size limits of request bodies, and how many requests a large body counts as toward the rate limit. While the event
 * loop reads and parses a body, it serves no other tenant, nor during the garbage collection that follows every few MiB
 * of bodies (docs/decisions/0093-small-bodies.md).
 */
import { ApiError } from './errors.ts'
import type { Operation } from './operation.ts'

const KiB = 1 << 10
const MiB = 1 << 20

/** Each started part of a request body with this size counts as one request toward the rate limit. */
export const bytesPerRequest = 64 * KiB
const largestJson = MiB

type Sized = Pick<Operation, 'body' | 'maxBytes' | 'upload'>

/**
 * Maximum body size of an operation: the declared size, else the smallest power of two, from 64 KiB to 1 MiB, that
 * holds every body its schema allows.
 */
export function bodyLimitOf({ body, maxBytes, upload }: Sized): number {
  const declared = upload?.maxBytes ?? maxBytes
  if (declared !== undefined) return declared
  const needed = body === undefined ? 0 : longestJson(body)
  let limit = bytesPerRequest
  while (limit < needed && limit < largestJson) limit *= 2
  return limit
}

/**
 * Returns how many requests a request counts as toward the rate limit, by the size of its body. An upload counts as one,
 * because it is passed on as it arrives. A body of unknown length counts like the largest body that the operation
 * accepts.
 */
export function requestsFor(headers: Readonly<Record<string, unknown>>, operation: Sized | undefined): number {
  const isMeasured = headers['transfer-encoding'] === undefined
  const sent = Number(headers['content-length'] ?? 0)
  if (!operation || operation.upload || (isMeasured && sent <= bytesPerRequest)) return 1
  const limit = bodyLimitOf(operation)
  // A body above the limit is refused without reading it, so it counts as one request.
  if (isMeasured && sent > limit) return 1
  return Math.ceil((isMeasured ? sent : limit) / bytesPerRequest)
}

export const tooLarge = (operation: Sized | undefined) =>
  new ApiError(
    'payload_too_large',
    `The body is too large: at most ${readable(operation ? bodyLimitOf(operation) : bytesPerRequest)} here.`,
  )

export const readable = (bytes: number) => (bytes % MiB === 0 ? `${bytes / MiB} MiB` : `${bytes / KiB} KiB`)

interface Shape {
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly object[]
  readonly format?: string
  readonly maxLength?: number
  readonly maxItems?: number
  readonly items?: object
  readonly properties?: Readonly<Record<string, object>>
  readonly additionalProperties?: boolean | object
}

const escaped = '\\u0000'.length
const quotes = '""'.length
/** Maximum length in bytes of a number, `true`, `false` or `null` as JSON. */
const longestWord = 25
const longestOfFormat: Readonly<Record<string, number>> = { uuid: 36, 'date-time': 40 }

/**
 * Maximum length in bytes of the JSON that a schema allows, without white space and undeclared members; Infinity if a
 * part of the schema is unbounded.
 */
export function longestJson(schema: object): number {
  const shape: Shape = schema
  if (shape.const !== undefined) return longestOf([shape.const])
  if (shape.enum) return longestOf(shape.enum)
  if (shape.anyOf) return Math.max(...shape.anyOf.map(longestJson))
  const types = typeof shape.type === 'string' ? [shape.type] : (shape.type ?? ['any'])
  return Math.max(...types.map(type => (longestOfType[type] ?? unbounded)(shape)))
}

const unbounded = () => Number.POSITIVE_INFINITY
const longestOf = (values: readonly unknown[]) =>
  Math.max(...values.map(value => JSON.stringify(value).length * escaped))

const longestOfType: Readonly<Record<string, (shape: Shape) => number>> = {
  null: () => longestWord,
  boolean: () => longestWord,
  integer: () => longestWord,
  number: () => longestWord,
  string({ format = '', maxLength = longestOfFormat[format] ?? unbounded() }) {
    return quotes + maxLength * escaped
  },
  array({ items = {}, maxItems = unbounded() }) {
    return maxItems === 0 ? quotes : quotes + maxItems * (longestJson(items) + 1)
  },
  object({ properties = {}, additionalProperties }) {
    if (typeof additionalProperties === 'object') return unbounded()
    const members = Object.entries(properties).map(([name, value]) => longestOf([name]) + longestJson(value) + 2)
    return members.reduce((sum, bytes) => sum + bytes, quotes)
  },
}
