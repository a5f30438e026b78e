/**
 * How large a body may be, and what a large one costs its sender. The event loop reads and parses bodies, and a collection
 * of garbage follows every few MiB of them: meanwhile no other tenant is served (docs/decisions/0093-small-bodies.md).
 */
import { ApiError } from './errors.ts'
import type { Operation } from './operation.ts'

const KiB = 1 << 10
const MiB = 1 << 20

/** A body up to this size counts as one request. Larger ones count as one for each such part. */
export const bytesPerRequest = 64 * KiB
const largestJson = MiB

type Sized = Pick<Operation, 'body' | 'maxBytes' | 'upload'>

/** Bytes that the body of an operation may have: those that it declares, else the power of two that holds all its schema allows. */
export function bodyLimitOf({ body, maxBytes, upload }: Sized): number {
  const declared = upload?.maxBytes ?? maxBytes
  if (declared !== undefined) return declared
  const needed = body === undefined ? 0 : longestJson(body)
  let limit = bytesPerRequest
  while (limit < needed && limit < largestJson) limit *= 2
  return limit
}

/**
 * As how many requests a request counts. An upload is one: it is passed on as it arrives. A body of unknown length counts as
 * the largest that the operation reads.
 */
export function requestsFor(headers: Readonly<Record<string, unknown>>, operation: Sized | undefined): number {
  const isMeasured = headers['transfer-encoding'] === undefined
  const sent = Number(headers['content-length'] ?? 0)
  if (!operation || operation.upload || (isMeasured && sent <= bytesPerRequest)) return 1
  const limit = bodyLimitOf(operation)
  // A body above the limit is refused unread.
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
/** Of a number, `true`, `false` or `null`. */
const longestWord = 25
const longestOfFormat: Readonly<Record<string, number>> = { uuid: 36, 'date-time': 40 }

/** Bytes of the longest JSON text of a schema, without white space and unknown members; Infinity where it has no bound. */
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
