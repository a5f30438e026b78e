/**
 * Generates request bodies that an operation must reject, from its schema: each field with each kind of invalid value,
 * and text that is not JSON.
 */
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/schema'

export interface Malformed {
  readonly what: string
  /** The body to send. */
  readonly payload: string | Buffer
  readonly contentType?: string
}

/** Returns a seeded random number generator (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

const junk: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  -0.1,
  65_536,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  1e308,
  -1e308,
  '',
  ' ',
  'x',
  '\u0000',
  'a\u0000b',
  '\ud800',
  '\udfff\ud800',
  '\u202e',
  '../../etc/passwd',
  '$(reboot)',
  "'; DROP TABLE account; --",
  'x'.repeat(5000),
  '😀'.repeat(2000),
  [],
  [[]],
  [null],
  {},
  { a: 1 },
  { toString: 1 },
  [{}],
  ['x', 1, null],
]

/** True for strings that PostgreSQL cannot store, which the API rejects in every field, whatever its schema. */
const unstorable = (value: unknown): boolean =>
  typeof value === 'string' && (value.includes('\0') || !value.isWellFormed())

const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`

/** Returns about `count` malformed bodies. @param example a valid body */
export function malformedBodies(schema: TSchema, example: object, count: number, random: () => number): Malformed[] {
  const text = JSON.stringify(example)
  return [...brokenJson(text), ...brokenFields(schema, example), ...randomFaults(schema, example, count, random)].slice(
    0,
    Math.max(count, 40),
  )
}

function brokenJson(text: string): Malformed[] {
  const inner = text.slice(1, -1)
  const rest = inner === '' ? '' : `,${inner}`
  const bodies: [string, string | Buffer][] = [
    ['not closed', text.slice(0, -1)],
    ['more after the end', `${text} x`],
    ['not JSON', 'name=x&y=z'],
    ['single quotes', "{'a': 1}"],
    ['a comment', `/* hello */ ${text}`],
    ['NaN', '{"a": NaN}'],
    ['a trailing comma', `${text.slice(0, -1)},}`],
    ['a duplicate key', `{"a":1,"a":2${rest}}`],
    ['__proto__', `{"__proto__":{"admin":true}${rest}}`],
    ['constructor.prototype', `{"constructor":{"prototype":{"admin":true}}${rest}}`],
    ['an escaped __proto__', `{"__pr\\u006fto__":{"admin":true}${rest}}`],
    ['too deep', `{"a":${nested(40)}${rest}}`],
    ['absurdly deep', nested(100_000)],
    ['too large', `{"a":"${'x'.repeat(1_100_000)}"${rest}}`],
    ['not UTF-8', Buffer.concat([Buffer.from('{"a":"'), Buffer.of(0xff, 0xfe, 0xc3), Buffer.from('"}')])],
    ['an array', `[${text}]`],
    ['a string', '"x"'],
    ['a number', '12'],
    ['null', 'null'],
  ]
  return [
    ...bodies.map(([what, payload]) => ({ what, payload })),
    { what: 'of another type', payload: text, contentType: 'text/xml' },
    { what: 'of another charset', payload: text, contentType: 'application/json; charset=utf-16' },
  ]
}

function brokenFields(schema: TSchema, example: object): Malformed[] {
  const required: unknown = Reflect.get(schema, 'required')
  const missing = (Array.isArray(required) ? required : []).map((field: string) => {
    const { [field]: _, ...rest } = example as Record<string, unknown>
    return { what: `without ${field}`, payload: JSON.stringify(rest) }
  })
  return [
    ...missing,
    ...keepInvalid(
      schema,
      fieldsOf(schema).flatMap(field =>
        junk.map(value => [{ ...example, [field]: value }, `${field} = ${short(value)}`] as const),
      ),
    ),
  ]
}

function randomFaults(schema: TSchema, example: object, count: number, random: () => number): Malformed[] {
  const pick = <T>(items: readonly T[]): T | undefined => items[Math.floor(random() * items.length)]
  const fields = fieldsOf(schema)
  if (fields.length === 0) return []
  const candidates = Array.from({ length: count }, () => {
    const body: Record<string, unknown> = { ...example }
    const faults = 1 + Math.floor(random() * 3)
    for (let i = 0; i < faults; i++) body[pick(fields) ?? ''] = pick(junk)
    return [body, 'several fields'] as const
  })
  return keepInvalid(schema, candidates)
}

const fieldsOf = (schema: TSchema) => Object.keys((Reflect.get(schema, 'properties') ?? {}) as object)

const short = (value: unknown) => JSON.stringify(value)?.slice(0, 40)

/** Removes bodies that happen to be valid: those that match the schema and contain only storable strings. */
function keepInvalid(
  schema: TSchema,
  candidates: readonly (readonly [Record<string, unknown>, string])[],
): Malformed[] {
  const validator = Compile(schema)
  return candidates
    .filter(([body]) => !validator.Check(body) || Object.values(body).some(unstorable))
    .map(([body, what]) => ({ what, payload: JSON.stringify(body) }))
}
