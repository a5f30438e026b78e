/** A missing request body counts as an empty object wherever an empty object is valid. */
import { afterAll, expect, it } from 'vitest'
import { bearer, createFixture } from './support/api-fixture.ts'
import { allOperations } from '../src/control/operations.ts'
import type { Call, Handler, Operation } from '../src/control/http/operation.ts'

const bodies = Object.entries(allOperations).flatMap(([id, operation]) => {
  const { type, required = [] } = (operation.body ?? {}) as { type?: string; required?: readonly string[] }
  return type === 'object' ? [{ id, operation, isOptional: required.length === 0 }] : []
})

const observed: unknown[] = []
const remember = (call: Pick<Call<Operation>, 'body' | 'audit'>): never => {
  observed.push(call.body)
  call.audit({ action: 'tested', resourceType: 'test' })
  return undefined as never
}
const handlerOf = ({ auth, unaudited, method }: Operation): Handler<never> =>
  auth === 'none' || unaudited || method === 'GET'
    ? { read: async call => remember(call) }
    : { write: async call => async () => remember(call) }
const operations: Record<string, Operation> = {}
for (const { id, operation } of bodies) {
  const { adminOnly: _, ...open } = operation
  operations[id] = { ...open, answer: 'free', throttle: 'unlimited' }
}
const handlers = Object.fromEntries(Object.entries(operations).map(([id, operation]) => [id, handlerOf(operation)]))
const { app } = createFixture({ operations, features: [{ operations, handlers }] })
afterAll(() => app.close())

it.each(bodies)('$id accepts a missing body exactly if an empty object is valid', async ({ operation, isOptional }) => {
  const url = operation.path
    .replace('{tenant_slug}', 'root')
    .replaceAll(/\{\w+\}/g, '00000000-0000-7000-8000-000000000001')
  const answer = await app.inject({ method: operation.method, url, headers: bearer('root') })
  if (!isOptional) return expect(answer.json()).toMatchObject({ status: 400, code: 'invalid_request' })
  expect(answer.statusCode, answer.body).toBe(200)
  const { properties = {} } = operation.body as { properties?: Record<string, { default?: unknown }> }
  const defaults = Object.entries(properties).flatMap(([name, one]) =>
    one.default === undefined ? [] : [[name, one.default]],
  )
  expect(observed.at(-1)).toEqual(Object.fromEntries(defaults))
})
