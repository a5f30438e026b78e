/**
 * The field types of the specification as TypeBox schemas, used in every `schema.ts`. They produce plain JSON Schema
 * 2020-12, which is copied unchanged into the OpenAPI 3.1 document.
 */
import { type Static, type TProperties, type TSchema, Type } from 'typebox'

type Options = Readonly<Record<string, unknown>>

/** Examples in the OpenAPI document for schemas without their own. */
const examples = {
  uuid: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
  dateTime: ['2026-03-14T09:26:53.589Z'],
  bool: [true],
  labelName: ['web'],
  fileName: ['before-upgrade'],
  displayName: ['Team Blue'],
} as const

export const uuid = (options: Options = {}) => Type.String({ format: 'uuid', examples: examples.uuid, ...options })
/** A timestamp as in RFC 3339. In responses, always in UTC with milliseconds. */
export const dateTime = (options: Options = {}) =>
  Type.String({ format: 'date-time', examples: examples.dateTime, ...options })
export const text = (options: Options = {}) => Type.String(options)
/**
 * Text that may contain control characters: secrets, values and files that are not displayed. All other text of a
 * request must not contain any (validate.ts), because names and messages are shown on terminals, in mails and in logs.
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
/** Integers up to 2^53 - 1, which a JavaScript number holds exactly. */
export const int64 = (options: Options = {}) =>
  Type.Integer({
    format: 'int64',
    minimum: Number.MIN_SAFE_INTEGER,
    maximum: Number.MAX_SAFE_INTEGER,
    ...options,
  })
export const double = (options: Options = {}) => Type.Number({ format: 'double', ...options })

/** A string from a fixed set of values. */
export const oneOf = <const T extends readonly [string, ...string[]]>(values: T, options: Options = {}) =>
  Type.Unsafe<T[number]>({ type: 'string', enum: [...values], examples: values.slice(0, 1), ...options })

/**
 * A nullable type, written `T?` in the specification. Scalars become `type: [T, "null"]` instead of a union, because
 * one message "must be a string or null" explains an error better than one message per branch, and serialization does
 * not have to try the branches.
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

/** Copies the description of an unnamed schema next to its branches, where readers look for it. */
function wordsOf({ title, description }: Readonly<Record<string, unknown>>): Options {
  return title === undefined && description !== undefined ? { description } : {}
}

/** An optional member of a body. A missing value and null mean the same. */
export const maybe = <T extends TSchema>(schema: T, options: Options = {}) => Type.Optional(nullable(schema, options))

/** An object with its own name in `components.schemas` of the OpenAPI document. Names are unique. */
export const resource = <P extends TProperties>(title: string, properties: P, options: Options = {}) =>
  Type.Object(properties, { title, ...options })

export const list = <T extends TSchema>(items: T, options: Options = {}) => Type.Array(items, options)
export const stringMap = (options: Options = {}) =>
  Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' }, ...options })
/** Any JSON value. */
export const freeForm = (options: Options = {}) => Type.Unknown(options)

/** User-chosen names that become part of a host name or path: a DNS label (RFC 1123, 2.1). */
export const labelName = (options: Options = {}) =>
  Type.String({
    minLength: 1,
    maxLength: 40,
    pattern: '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$',
    'x-mote-pattern': 'only lower-case letters, digits and dashes, and start and end with a letter or a digit',
    examples: examples.labelName,
    ...options,
  })
/** Names of volumes and snapshots: used in paths, but not in host names. */
export const fileName = (options: Options = {}) =>
  Type.String({
    minLength: 1,
    maxLength: 63,
    pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$',
    'x-mote-pattern': 'only letters, digits, dots, dashes and underscores, and start with a letter or a digit',
    examples: examples.fileName,
    ...options,
  })
/** Names that are only displayed to users. */
export const displayName = (options: Options = {}) =>
  Type.String({
    minLength: 1,
    maxLength: 100,
    pattern: '\\S',
    'x-mote-pattern': 'at least one character that is not a space',
    examples: examples.displayName,
    ...options,
  })

/**
 * Key under which the example for one use of a named schema is stored. It is a symbol, so that the shared component
 * does not contain the example.
 */
export const exampleMark = Symbol('example')

const Acknowledgement = resource(
  'Acknowledgement',
  {
    status: text({
      description: 'What the request did, for example `deleted`, or the state that the resource is in now.',
      examples: ['deleted'],
    }),
  },
  { description: 'Result of a change that leaves no resource to return.' },
)

/**
 * The response of operations that have no resource to return, and whose response the specification does not define.
 * @param status the word that the handler returns and that the document shows
 */
export const acknowledgement = <const S extends string>(status: S) =>
  Type.Unsafe<{ status: S }>({ ...Acknowledgement, [exampleMark]: { status } })
