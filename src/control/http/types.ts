/**
 * The vocabulary that every `schema.ts` is written in: the field types of the specification as TypeBox schemas. What
 * they produce is plain JSON Schema 2020-12, so that it survives unchanged into the OpenAPI 3.1 document.
 */
import { type Static, type TProperties, type TSchema, Type } from 'typebox'

type Options = Readonly<Record<string, unknown>>

/** Where a schema says nothing else, the document shows these. */
const examples = {
  uuid: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
  dateTime: ['2026-03-14T09:26:53.589Z'],
  bool: [true],
  labelName: ['web'],
  fileName: ['before-upgrade'],
  displayName: ['Team Blue'],
} as const

export const uuid = (options: Options = {}) => Type.String({ format: 'uuid', examples: examples.uuid, ...options })
/** RFC 3339, always UTC and with milliseconds when we write it. */
export const dateTime = (options: Options = {}) =>
  Type.String({ format: 'date-time', examples: examples.dateTime, ...options })
export const text = (options: Options = {}) => Type.String(options)
/**
 * Text that may hold control characters: secrets, values and files that nobody is shown. In every other text of a request
 * they are refused (validate.ts), because names and messages end on terminals, in mails and in logs.
 */
export const rawText = (options: Options = {}) => Type.String({ [rawTextMark]: true, ...options })
export const rawTextMark = 'x-mote-raw'
export const bool = (options: Options = {}) => Type.Boolean({ examples: examples.bool, ...options })
export const uint16 = (options: Options = {}) =>
  Type.Integer({ format: 'uint16', minimum: 0, maximum: 65_535, ...options })
export const uint32 = (options: Options = {}) =>
  Type.Integer({ format: 'uint32', minimum: 0, maximum: 4_294_967_295, ...options })
export const int32 = (options: Options = {}) =>
  Type.Integer({ format: 'int32', minimum: -2_147_483_648, maximum: 2_147_483_647, ...options })
/** Bounded by what a JavaScript number holds exactly: 2^53 - 1. */
export const int64 = (options: Options = {}) =>
  Type.Integer({
    format: 'int64',
    minimum: Number.MIN_SAFE_INTEGER,
    maximum: Number.MAX_SAFE_INTEGER,
    ...options,
  })
export const double = (options: Options = {}) => Type.Number({ format: 'double', ...options })

/** One of a closed set of strings. */
export const oneOf = <const T extends readonly [string, ...string[]]>(values: T, options: Options = {}) =>
  Type.Unsafe<T[number]>({ type: 'string', enum: [...values], examples: values.slice(0, 1), ...options })

/**
 * `T?` of the specification. Scalars become `type: [T, "null"]` rather than a union, because one message "must be a
 * string or null" explains a fault better than one message per branch, and serialises without trying the branches.
 */
export function nullable<T extends TSchema>(schema: T, options: Options = {}) {
  const json: Record<string, unknown> = Object.fromEntries(Object.entries(schema))
  const { type } = json
  if (typeof type !== 'string' || type === 'object' || type === 'array')
    return Type.Unsafe<Static<T> | null>({ anyOf: [schema, { type: 'null' }], ...wordsOf(json), ...options })
  const members = json.enum
  return Type.Unsafe<Static<T> | null>({
    ...json,
    type: [type, 'null'],
    ...(Array.isArray(members) ? { enum: [...members, null] } : {}),
    ...options,
  })
}

/** What a schema without a name says about the member stands beside its branches, where readers look for it. */
function wordsOf({ title, description }: Readonly<Record<string, unknown>>): Options {
  return title === undefined && description !== undefined ? { description } : {}
}

/** An optional member of a body that may also be null; both mean "not given". */
export const maybe = <T extends TSchema>(schema: T, options: Options = {}) => Type.Optional(nullable(schema, options))

/** An object with a name of its own in `components.schemas` of the OpenAPI document. Names are unique. */
export const resource = <P extends TProperties>(title: string, properties: P, options: Options = {}) =>
  Type.Object(properties, { title, ...options })

export const list = <T extends TSchema>(items: T, options: Options = {}) => Type.Array(items, options)
export const stringMap = (options: Options = {}) =>
  Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' }, ...options })
/** Any JSON value. */
export const freeForm = (options: Options = {}) => Type.Unknown(options)

/** Names people choose for things that get a host name or a path of their own: a DNS label (RFC 1123, 2.1). */
export const labelName = (options: Options = {}) =>
  Type.String({
    minLength: 1,
    maxLength: 40,
    pattern: '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$',
    'x-mote-pattern': 'only lower-case letters, digits and dashes, and start and end with a letter or a digit',
    examples: examples.labelName,
    ...options,
  })
/** Names of volumes and snapshots: they appear in paths, never in host names. */
export const fileName = (options: Options = {}) =>
  Type.String({
    minLength: 1,
    maxLength: 63,
    pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$',
    'x-mote-pattern': 'only letters, digits, dots, dashes and underscores, and start with a letter or a digit',
    examples: examples.fileName,
    ...options,
  })
/** Names that are only ever shown. */
export const displayName = (options: Options = {}) =>
  Type.String({
    minLength: 1,
    maxLength: 100,
    pattern: '\\S',
    'x-mote-pattern': 'at least one character that is not a space',
    examples: examples.displayName,
    ...options,
  })

/** Example of one use of a named schema. A symbol: the component that all uses share has none of it. */
export const exampleMark = Symbol('example')

const Acknowledgement = resource(
  'Acknowledgement',
  {
    status: text({
      description: 'What became of the resource: a past participle, or the state it is in now.',
      examples: ['deleted'],
    }),
  },
  { description: 'What a change came to, where there is no resource left to show.' },
)

/**
 * The answer of operations whose answer the specification leaves open and that have no resource to show.
 * @param status the one word that the handler answers, and that the document shows
 */
export const acknowledgement = <const S extends string>(status: S) =>
  Type.Unsafe<{ status: S }>({ ...Acknowledgement, [exampleMark]: { status } })
