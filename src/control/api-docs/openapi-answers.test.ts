/**
 * Compares the headers that the server sends for each operation with those that the OpenAPI document declares. The
 * handlers return the operations' examples.
 */
import { Readable } from 'node:stream'
import { apiDocsFeature } from './docs.ts'
import { afterAll, expect, it } from 'vitest'
import { apiDocsOperations } from './schema.ts'
import { allOperations } from '../operations.ts'
import { exampleOf } from '../http/example.ts'
import { bearer, createFixture, thing } from '../../../test/support/api-fixture.ts'
import { corsHeaders, jsonHeaders, pageHeaders, preflightHeaders, securityHeaders } from '../http/headers.ts'
import { buildOpenApi } from './openapi.ts'
import type { Call, Handler, Operation } from '../http/operation.ts'
import { ListPart } from '../http/paging.ts'

interface Described {
  readonly headers?: Readonly<Record<string, unknown>>
}
type Paths = Readonly<
  Record<string, Readonly<Record<string, { readonly responses: Readonly<Record<string, Described>> }>>>
>

const { paths } = buildOpenApi(allOperations) as { readonly paths: Paths }

/** Returns a handler that responds with the operation's example. */
function standIn({ answer, auth, list, method, unaudited }: Operation): Handler<never> {
  // The example's type is unknown to this generic handler; the server validates the example against the operation's
  // response type.
  const example = (typeof answer === 'string' ? 'ok' : exampleOf(answer)) as never
  if (answer === 'stream') return { stream: async () => undefined }
  if (answer === 'bytes')
    return { bytes: async () => ({ name: 'x', version: '1', sizeBytes: 1, body: Readable.from(['x']) }) }
  // If an operation's response contains a list as one of its fields, its handler selects the page of the list itself.
  if (list?.within !== undefined) return { read: async () => new ListPart(example, undefined) }
  if (method === 'GET' || auth === 'none' || unaudited) return { read: async () => example }
  return {
    write: async (call: Pick<Call<Operation>, 'audit'>) => async () => {
      call.audit({ action: 'example.done', resourceType: 'example' })
      return example
    },
  }
}

const ours = Object.entries(allOperations).filter(([id]) => !(id in apiDocsOperations))
const handlers = Object.fromEntries(ours.map(([id, operation]) => [id, standIn(operation)]))
const { app } = createFixture({
  operations: allOperations,
  features: [apiDocsFeature(allOperations), { operations: Object.fromEntries(ours), handlers }],
})
afterAll(() => app.close())

/**
 * Names of headers that this test does not compare: the document describes those on every response only once, in its
 * introduction, and does not describe those that belong to HTTP itself.
 */
const common = new Set(
  [
    ...Object.keys({ ...securityHeaders, ...jsonHeaders, ...pageHeaders, ...preflightHeaders }),
    ...Object.keys(corsHeaders('https://a.example', ['https://a.example'])),
    ...[
      'connection',
      'content-length',
      'date',
      'keep-alive',
      'transfer-encoding',
      'x-accel-buffering',
      'accept-ranges',
    ],
  ].map(name => name.toLowerCase()),
)
const notAlways = new Set(['link', 'idempotent-replayed', 'set-cookie'])

const declaredHeaders = ({ method, path }: Operation, status: number) =>
  Object.keys(paths[path]?.[method.toLowerCase()]?.responses[status]?.headers ?? {}).map(name => name.toLowerCase())

function pathOf({ params, path }: Operation): string {
  const examples = Object(exampleOf(params))
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    // In the test server, the project of the user `root` has the slug `root`.
    encodeURIComponent(name === 'tenant_slug' ? 'root' : String(Reflect.get(examples, name) ?? 'x')),
  )
}

function payloadOf({ body, rawBody, upload }: Operation) {
  if (rawBody || upload) return { payload: 'bytes', headers: { 'content-type': 'application/octet-stream' } }
  return {
    payload: body && JSON.stringify(exampleOf(body)),
    headers: body ? { 'content-type': 'application/json' } : {},
  }
}

/**
 * Returns a query string with example values of the required parameters only: an example cursor would be refused,
 * because cursors are valid only in the list that returned them.
 */
function queryOf({ query }: Operation): string {
  const { required = [] } = Object(query) as { readonly required?: readonly string[] }
  const examples = Object(exampleOf(query))
  return required.map(name => `${name}=${encodeURIComponent(String(Reflect.get(examples, name)))}`).join('&')
}

/** Returns whether the document has examples for all parts of the operation's request and for its response. */
const hasExamples = ({ answer, body, params, query }: Operation) =>
  [typeof answer === 'string' ? undefined : answer, body, params, query]
    .filter(schema => schema !== undefined)
    .every(schema => exampleOf(schema) !== undefined)

it.each(
  ours.filter(
    ([, operation]) => hasExamples(operation) && operation.answer !== 'free' && operation.answer !== 'socket',
  ),
)('operation %s sends the headers that the document declares', async (_, operation) => {
  const { headers, payload } = payloadOf(operation)
  const answer = await app.inject({
    method: operation.method,
    url: `${pathOf(operation)}?${queryOf(operation)}`,
    headers: { ...bearer('root'), ...headers },
    ...(payload === undefined ? {} : { payload }),
  })
  expect(answer.statusCode, answer.body).toBe(200)
  const sent = Object.keys(answer.headers).filter(name => !common.has(name))
  const declared = declaredHeaders(operation, 200)
  expect(sent.filter(name => !declared.includes(name))).toEqual([])
  expect(declared.filter(name => !sent.includes(name) && !notAlways.has(name))).toEqual([])
})

it('a GET request with a current entity tag gets 304 with the headers that the document declares', async () => {
  const read = () => app.inject({ url: '/v1/health', headers: { 'if-none-match': '*' } })
  const answer = await read()
  expect(answer.statusCode).toBe(304)
  const sent = Object.keys(answer.headers).filter(name => !common.has(name))
  expect(sent.toSorted()).toEqual(declaredHeaders(allOperations.getHealth!, 304).toSorted())
})

it.each([
  [401, { method: 'GET', url: '/v1/apps' }],
  [404, { method: 'GET', url: '/v1/apps?project=foreign', headers: bearer('ada') }],
  [429, { method: 'GET', url: '/v1/apps', headers: bearer('eve') }],
] as const)('an error response with status %s has the declared headers', async (status, request) => {
  const { responses } = buildOpenApi(allOperations)['components'] as { readonly responses: Record<string, Described> }
  const rateLimits = {
    tenantPerMinute: 1,
    anonymousPerMinute: 99,
    loginPerMinute: 9,
    createsPerSecond: 9,
    refusalDelayMs: 0,
  }
  const limited = createFixture({
    operations: allOperations,
    features: [apiDocsFeature(allOperations), { operations: Object.fromEntries(ours), handlers }],
    config: status === 429 ? { rateLimits } : {},
  })
  if (status === 429) await limited.app.inject(request)
  const answer = await limited.app.inject(request)
  await limited.app.close()
  expect(answer.statusCode).toBe(status)
  const declared = Object.keys(responses[`Error${status}`]?.headers ?? {}).map(name => name.toLowerCase())
  expect(declared.filter(name => !(name in answer.headers))).toEqual([])
})

it('a request fails if its operation sets a cookie that it does not declare', async () => {
  const other = createFixture({
    handlers: {
      getSecretThing: {
        read: async call => {
          call.setCookie('a=b')
          return thing('x')
        },
      },
    },
  })
  const answer = await other.app.inject({ url: '/v1/things/x/secret', headers: bearer('ann') })
  expect(answer.statusCode).toBe(500)
  expect(other.lines.join()).toContain('getSecretThing sets a cookie, which it does not declare')
  await other.app.close()
})
