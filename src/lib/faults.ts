/**
 * Turns validation errors into readable sentences. The sentences never contain the client's input, which may be a
 * secret.
 */
import type { TLocalizedValidationError } from 'typebox/error'

/** What is wrong with one field of the input. */
export interface FieldFault {
  readonly field: string
  readonly message: string
}

const typeNames: Readonly<Record<string, string>> = {
  string: 'text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
}
const formatNames: Readonly<Record<string, string>> = {
  uuid: 'a UUID',
  email: 'an e-mail address',
  'date-time': 'a time like 2026-01-31T12:00:00Z',
}
const maxDetails = 20

/**
 * Returns the validation errors, one per field. The field of a nested value is a path with slashes, such as
 * `tenants/0/id`.
 */
export function describeFaults(schema: unknown, errors: readonly TLocalizedValidationError[]): FieldFault[] {
  const details: FieldFault[] = []
  for (const error of errors) {
    if (details.length === maxDetails) break
    // Skip the error of the union itself, and that of its null branch, which explains nothing: each other branch
    // reports an error, too.
    if (error.keyword === 'anyOf' || isNullBranch(error)) continue
    const field = error.instancePath.slice(1)
    if (error.keyword === 'required')
      for (const name of error.params.requiredProperties)
        details.push({ field: field === '' ? name : `${field}/${name}`, message: 'is required' })
    else details.push({ field, message: sentence(error, at(schema, error.schemaPath)) })
  }
  // Return the first reason of each field only. For example, a negative number of vCPUs is both too small and not in
  // the list.
  return details.filter((detail, i) => details.findIndex(other => other.field === detail.field) === i)
}

function isNullBranch(error: TLocalizedValidationError): boolean {
  return error.keyword === 'type' && error.params.type === 'null'
}

function sentence(error: TLocalizedValidationError, schema: Readonly<Record<string, unknown>>): string {
  switch (error.keyword) {
    case 'type':
      return `must be ${[error.params.type]
        .flat()
        .map(name => typeNames[name] ?? name)
        .join(' or ')}`
    case 'enum':
      return `must be one of ${error.params.allowedValues.filter(value => value !== null).join(', ')}`
    case 'minimum':
      return `must be at least ${error.params.limit}`
    case 'maximum':
      return `must be at most ${error.params.limit}`
    case 'minLength':
      return error.params.limit === 1 ? 'must not be empty' : `must have at least ${error.params.limit} characters`
    case 'maxLength':
      return `must have at most ${error.params.limit} characters`
    case 'minItems':
      return `must have at least ${error.params.limit} entries`
    case 'maxItems':
      return `must have at most ${error.params.limit} entries`
    case 'maxProperties':
      return `must have at most ${error.params.limit} members`
    case 'uniqueItems':
      return 'must not have the same entry twice'
    case 'pattern':
      return `must have ${schema['x-mote-pattern'] ?? `the form ${schema.pattern}`}`
    case 'format':
      return `must be ${formatNames[error.params.format] ?? error.params.format}`
    default:
      return error.message
  }
}

function at(schema: unknown, path: string): Readonly<Record<string, unknown>> {
  let node = schema
  for (const token of path.split('/').slice(1)) {
    const key = token.replaceAll('~1', '/').replaceAll('~0', '~')
    node = isRecord(node) ? node[key] : undefined
  }
  return isRecord(node) ? node : {}
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
