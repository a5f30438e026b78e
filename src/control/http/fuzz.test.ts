/**
 * Sends generated requests to every operation: bodies made from its schema and then damaged, wrong types, huge numbers,
 * deep nesting, odd text. Handlers are stand-ins without any logic, so any 5xx here is a bug in the HTTP layer.
 */
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { allOperations } from '../operations.ts'
import { apiDocsOperations } from '../api-docs/schema.ts'
import { runsAll } from '../../../test/support/all-examples.ts'
import { bearer, createFixture } from '../../../test/support/api-fixture.ts'
import type { Call, Handler, Operation } from './operation.ts'

/** Number of requests that passed validation and reached a handler. */
let reached = 0

/** Creates a handler that does only what the server requires of every handler. */
function standIn({ answer, auth, list, method, unaudited }: Operation): Handler<never> {
  const remember = async (): Promise<never> => {
    reached += 1
    // The cast is needed because the type of the response differs between operations.
    return (list && []) as never
  }
  if (answer === 'stream') return { stream: remember }
  if (method === 'GET' || auth === 'none' || unaudited) return { read: remember }
  return {
    write: async (call: { audit: Call<Operation>['audit'] }) => async () => {
      call.audit({ action: 'fuzzed', resourceType: 'fuzz' })
      return remember()
    },
  }
}

/**
 * The declared operations without rate limits, and without response schemas, which the stand-in handlers do not
 * satisfy.
 */
const operations: Record<string, Operation> = {}
for (const [id, { adminOnly: _, ...operation }] of Object.entries(allOperations))
  if (!(id in apiDocsOperations))
    operations[id] = { ...operation, throttle: 'unlimited', answer: operation.answer === 'stream' ? 'stream' : 'free' }
const handlers = Object.fromEntries(Object.entries(operations).map(([id, operation]) => [id, standIn(operation)]))
const { app, lines } = createFixture({ operations, features: [{ operations, handlers }] })
afterAll(() => app.close())

interface Schema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly format?: string
}

const oddText = fc.constantFrom(
  '',
  ' ',
  '\u0000',
  '\ud800',
  '💥',
  '%00',
  '../../etc',
  "'; DROP TABLE app; --",
  '{{7*7}}',
  'a'.repeat(5000),
  '-1',
  'true',
  '\u202e',
)
const oddNumber = fc.constantFrom(-1, 0, 1.5, 65_536, 2 ** 31, 2 ** 32, 2 ** 53, 2 ** 63, -(2 ** 63), 1e308, -0)
const odd = fc.oneof(
  oddText,
  oddNumber,
  fc.constantFrom(null, true, false, [], {}, [[]], { __x: 1 }),
  fc.jsonValue({ maxDepth: 3 }),
)

/** Generates values for a schema: most of them fit, some are arbitrary. */
function near(schema: Schema): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 3, arbitrary: fitting(schema) }, { weight: 1, arbitrary: odd })
}

function fitting(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.enum) return fc.constantFrom(...schema.enum)
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map(fitting))
  const types = [schema.type ?? []].flat()
  if (types.includes('object') && schema.properties)
    return fc.record(
      Object.fromEntries(Object.entries(schema.properties).map(([name, property]) => [name, near(property)])),
      { requiredKeys: [] },
    )
  if (types.includes('array') && schema.items) return fc.array(near(schema.items), { maxLength: 4 })
  if (types.includes('integer')) return fc.oneof(fc.integer({ min: 0, max: 4096 }), oddNumber)
  if (types.includes('number')) return fc.double()
  if (types.includes('boolean')) return fc.boolean()
  if (schema.format === 'uuid') return fc.uuid()
  if (schema.format === 'date-time') return fc.date({ noInvalidDate: true }).map(date => date.toISOString())
  if (schema.format === 'email') return fc.emailAddress()
  if (types.includes('string')) return fc.oneof(fc.stringMatching(/^[a-z][a-z0-9-]{0,8}[a-z]$/), oddText)
  return odd
}

/** Generates the text of a body: usually JSON, sometimes broken JSON. */
const bodyText = (schema: Schema) =>
  near(schema).chain(value =>
    fc.constantFrom(
      JSON.stringify(value),
      JSON.stringify(value),
      JSON.stringify(value),
      `${JSON.stringify(value)}}`,
      JSON.stringify(value).slice(0, -1),
      `{"__proto__":{"admin":true},"x":${JSON.stringify(value)}}`,
      `{"a":1,"a":${JSON.stringify(value)}}`,
      '['.repeat(100),
      '\u0000',
    ),
  )

const pathOf = (operation: Operation) =>
  fc
    .record(
      Object.fromEntries(
        Object.entries((operation.params as Schema | undefined)?.properties ?? {}).map(([name, schema]) => [
          name,
          fc.oneof(fitting(schema).map(String), oddText),
        ]),
      ),
    )
    .map(params => operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => escape(String(params[name]))))

const queryOf = (operation: Operation) =>
  fc
    .record(
      Object.fromEntries(
        Object.entries((operation.query as Schema | undefined)?.properties ?? {}).map(([name, schema]) => [
          name,
          near(schema),
        ]),
      ),
      { requiredKeys: [] },
    )
    .map(query =>
      Object.entries(query)
        .map(([name, value]) => `${name}=${escape(typeof value === 'object' ? JSON.stringify(value) : String(value))}`)
        .join('&'),
    )

/** Like encodeURIComponent, but does not throw on an unpaired surrogate. */
const escape = (text: string) => encodeURIComponent(text.toWellFormed())

const runs = Number(process.env.MOTE_FUZZ_RUNS ?? (runsAll ? 60 : 20))

describe('generated requests', () => {
  const observed = new Map<number, number>()
  afterAll(() => {
    const total = [...observed.values()].reduce((sum, count) => sum + count, 0)
    console.log(`${total} requests:`, Object.fromEntries([...observed].toSorted(([a], [b]) => a - b)))
  })

  it.each(Object.entries(operations))('to %s cause no server error', async (_id, operation) => {
    const request = fc.record({
      path: pathOf(operation),
      query: queryOf(operation),
      body: operation.body ? bodyText(operation.body as Schema) : fc.oneof(fc.constant(undefined), fc.json()),
      type: fc.constantFrom(
        'application/json',
        'application/json',
        'application/json',
        'text/plain',
        'application/x-www-form-urlencoded',
      ),
    })
    await fc.assert(
      fc.asyncProperty(request, async ({ path, query, body, type }) => {
        const answer = await app.inject({
          method: operation.method,
          url: query === '' ? path : `${path}?${query}`,
          headers: { ...bearer('ann'), 'x-project': 'ann', ...(body === undefined ? {} : { 'content-type': type }) },
          ...(body === undefined ? {} : { payload: body }),
        })
        const { statusCode: status } = answer
        observed.set(status, (observed.get(status) ?? 0) + 1)
        expect(status, status < 500 ? '' : lines.findLast(line => line.includes('"level":50'))).toBeLessThan(500)
        if (status >= 400)
          expect(answer.json()).toMatchObject({ status, error: expect.any(String), code: expect.any(String) })
      }),
      { numRuns: runs },
    )
  })

  it('pass validation and reach a handler in some cases', () => {
    expect(reached).toBeGreaterThan(100)
  })
})
