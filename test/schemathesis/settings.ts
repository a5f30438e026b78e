/** Generates the configuration file of schemathesis. */
import { allOperations } from '../../src/control/operations.ts'

export interface Run {
  readonly token: string
  /** Slug of the project that owns all resources. */
  readonly project: string
  /** Path parameters of existing resources. */
  readonly params: Readonly<{ [name: string]: string }>
  /** Number of generated requests per operation. */
  readonly examples: number
}

/**
 * Enabled checks. Not among them are those that expect success for every request that matches its schema: the API
 * answers 400 to requests that violate rules beyond the schema, such as an unknown host name.
 */
const checks = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
  'negative_data_rejection',
  'ignored_auth',
  'unsupported_method',
]

const quoted = (text: string) => JSON.stringify(text)

const isUuid = (text: string) => /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/.test(text)
const nothing = (named: string) => (isUuid(named) ? '00000000-0000-7000-8000-000000000000' : 'nothing')

/** Filters for operations that would remove the prepared resources. They are tested with ids that do not exist. */
const unseeded = ['include-method = "DELETE"', 'include-path = "/v1/admin/hosts/{host_id}/drain"']

const off = (operation: string, check: string) => `
[[operations]]
include-name = ${quoted(operation)}
checks.${check}.enabled = false
`

/**
 * Disables the check of response schemas for event streams: their OpenAPI 3.1 schema describes the text of the whole
 * stream, but schemathesis compares each event with it.
 */
const streams = Object.values(allOperations)
  .filter(({ answer }) => answer === 'stream')
  .map(({ method, path }) => off(`${method} ${path}`, 'response_schema_conformance'))
  .join('')

/**
 * Disables the check that invalid requests are rejected for operations whose body may be an empty object. They accept a
 * missing body, although the OpenAPI document marks it as required.
 */
const emptyBodies = Object.values(allOperations)
  .filter(({ body, bodyRequired }) => bodyRequired && body !== undefined && Reflect.get(body, 'required') === undefined)
  .map(({ method, path }) => off(`${method} ${path}`, 'negative_data_rejection'))
  .join('')

export function settings({ token, project, params, examples }: Run): string {
  const named = (valueOf: (value: string) => string) =>
    Object.entries(params)
      .map(([name, value]) => `${quoted(`path.${name}`)} = ${quoted(valueOf(value))}`)
      .join('\n')
  return `headers = { Authorization = ${quoted(`Bearer ${token}`)} }
request-timeout = 30.0
continue-on-failure = true
workers = 1
generation.max-examples = ${examples}

[checks]
enabled = false
${checks.map(name => `${name}.enabled = true`).join('\n')}

[phases]
stateful.enabled = false

[parameters]
"header.X-Project" = ${quoted(project)}
"query.project" = ${quoted(project)}
"query.timeout" = 1
${named(value => value)}
${streams}${emptyBodies}${unseeded
  .map(
    filter => `
[[operations]]
${filter}
[operations.parameters]
${named(nothing)}
`,
  )
  .join('')}`
}
