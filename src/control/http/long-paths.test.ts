/**
 * A path parameter that exceeds the router's length limit is a bad request, even if a handler for pages accepts all
 * other paths.
 */
import { afterAll, expect, it } from 'vitest'
import { allOperations } from '../operations.ts'
import { bearer, createFixture, neverCalled } from '../../../test/support/api-fixture.ts'

const { app } = createFixture({
  operations: allOperations,
  features: [neverCalled(allOperations)],
  pages: [{ serves: () => false, register: server => void server.get('/*', (_, reply) => reply.callNotFound()) }],
})
afterAll(() => app.close())

const named = Object.entries(allOperations).filter(([, { params }]) => params !== undefined)

it.each(named)('%s responds with 400 to a path parameter that is too long', async (_id, { method, path }) => {
  const url = path.replaceAll(/\{\w+\}/g, 'a'.repeat(600))
  const answer = await app.inject({ method, url, headers: bearer('root') })
  expect(answer.json()).toMatchObject({ status: 400, code: 'invalid_request' })
})
