/**
 * Builds the OpenAPI 3.1.0 document from the declarations of operations. TypeBox schemas are JSON Schema 2020-12, so
 * they are copied unchanged; those with a title become named components.
 */
import { requestBodyOf, responsesOf } from './openapi-answers.ts'
import { type Components, hoist, type Json } from './openapi-components.ts'
import { errorResponse, errorSchemas, type ErrorStatus } from './openapi-errors.ts'
import { headerComponents } from './openapi-headers.ts'
import { parametersOf } from './openapi-parameters.ts'
import type { Operation } from '../http/operation.ts'
import { isTagged } from '../http/precondition.ts'
import { rightOf } from '../http/right.ts'
import { tagDescriptions } from '../http/tags.ts'

export const apiVersion = '0.5.4'

const introduction = `Projects, apps, deployments, volumes, databases, networks and billing of microVM workloads.

The following applies to every operation:

- **Credentials.** \`Authorization: Bearer\` with a session JWT or a personal access token, unless the operation says otherwise.
- **Errors.** Every error response has the schema \`Error\`, with a \`code\` for programs; clients that accept \`application/problem+json\` get \`Problem\` instead.
  A method that a path does not support gets 405, with the supported methods in \`Allow\`. Every \`GET\` except for streams also supports \`HEAD\`.
- **Retries.** Every \`POST\`, \`PATCH\` and \`DELETE\` with a credential takes an \`Idempotency-Key\`. Responses with 429 and 503 have \`Retry-After\`: the seconds to wait.
- **Bodies.** The maximum size of a body is stated for each operation. For the rate limit, a body counts as one request
  for each 64 KiB of it; a body of unknown length (\`Transfer-Encoding: chunked\`) counts as the maximum size.
- **Versions.** Responses to \`GET\` have an \`ETag\`. \`If-None-Match\` saves transferring an unchanged resource; \`If-Match\` refuses to change a resource that has changed since it was read.
- **Lists** take \`limit\` and \`cursor\`, and link to their next page in the header \`Link\`. Without \`limit\`, a list contains all items.
- **Event streams** are server-sent events. The \`contentSchema\` of a stream lists its events, each with the schema of its data.
- **Forward compatibility.** Responses may get new members, and documented lists of values may get new values. Ignore members and values that you do not know.

Every response also has the security headers of a web page (\`X-Content-Type-Options\`, \`Strict-Transport-Security\` and others), and CORS headers for origins that the operator allows.`

export function buildOpenApi(operations: Readonly<Record<string, Operation>>): Json {
  const components: Components = new Map()
  for (const schema of errorSchemas) hoist(schema, components)
  const paths: Record<string, Json> = {}
  const readable = new Set(
    Object.values(operations)
      .filter(isTagged)
      .map(({ path }) => path),
  )
  for (const [id, operation] of Object.entries(operations)) {
    const item = (paths[operation.path] ??= { servers: [{ url: '/' }] })
    item[operation.method.toLowerCase()] = describe(id, operation, components, readable)
  }
  const tags = new Set(Object.values(operations).map(operation => operation.tag))
  const responses = errorResponses(paths)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Mote',
      version: apiVersion,
      summary: 'Control plane of a microVM cloud',
      description: introduction,
      contact: { name: 'The operator of this installation' },
      license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
    },
    servers: [
      {
        url: '/v1',
        description:
          'Base URL of the API. The paths in this document already begin with the path of this base URL, so do not put it before them again.',
      },
    ],
    tags: [...tags].map(name => ({ name, description: tagDescriptions[name] ?? name })),
    paths,
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'A session JWT, or a personal access token `svc_pat_...`.',
        },
      },
      headers: headerComponents(new Set(headerNames([paths, responses]))),
      schemas: Object.fromEntries([...components].toSorted(([a], [b]) => a.localeCompare(b))),
      responses,
    },
  }
}

function describe(id: string, operation: Operation, components: Components, readable: ReadonlySet<string>): Json {
  const parameters = parametersOf(operation, components, readable)
  return {
    operationId: id,
    tags: [operation.tag],
    summary: operation.summary,
    ...(operation.description === undefined ? {} : { description: operation.description }),
    security: operation.auth === 'bearer' ? [{ bearer: [] }] : [],
    ...(parameters.length > 0 ? { parameters } : {}),
    ...requestBodyOf(operation, components),
    responses: responsesOf(operation, components, readable),
    ...(operation.auth === 'bearer' ? { 'x-mote-scope': operation.scope } : {}),
    'x-mote-right': rightOf(operation),
    ...(operation.adminOnly ? { 'x-mote-admin-only': true } : {}),
    ...(operation.addition ? { 'x-mote-addition': true } : {}),
  }
}

/** Returns the error responses that at least one operation references. */
function errorResponses(paths: Json): Json {
  const used = JSON.stringify(paths).matchAll(/components\/responses\/Error(\d+)/g)
  const statuses = new Set([...used].map(([, status]) => Number(status)))
  return Object.fromEntries(
    [...statuses].toSorted((a, b) => a - b).map(status => [`Error${status}`, errorResponse(status as ErrorStatus)]),
  )
}

/** Returns the names of all response headers, found by their references. */
const headerNames = (part: unknown): string[] =>
  [...JSON.stringify(part).matchAll(/"([\w-]+)":\{"\$ref":"#\/components\/headers\//g)].map(([, name = '']) => name)
