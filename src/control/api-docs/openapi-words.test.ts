/** Every operation, parameter and property in the OpenAPI document has a description and an example. */
import { describe, expect, it } from 'vitest'
import { Compile } from 'typebox/schema'
import { appOperations } from '../apps/schema.ts'
import { allOperations } from '../operations.ts'
import { missingWords } from '../../../test/support/document-words.ts'
import { exampleOf } from '../http/example.ts'
import { buildOpenApi } from './openapi.ts'
import { resource, text, uuid } from '../http/types.ts'

describe('the OpenAPI document', () => {
  it('has a description and an example for each operation, parameter and property', () => {
    expect(missingWords(buildOpenApi(allOperations))).toEqual([])
  })

  it('is reported as incomplete if a property or an operation has no description', () => {
    const answer = resource('Bare', { id: uuid({ description: 'Its id.' }), name: text() })
    const { description: _, ...listApps } = appOperations.listApps
    const getBare = { ...listApps, summary: 'One', path: '/v1/bare', answer }
    expect(missingWords(buildOpenApi({ getBare }))).toEqual(
      expect.arrayContaining(['GET /v1/bare: description', 'Bare.name: description', 'Bare.name: example']),
    )
  })
})

describe('an example composed from a schema', () => {
  const schemas = Object.entries(allOperations).flatMap(([id, { answer, body }]) => [
    ...(body ? [[`${id} body`, body] as const] : []),
    ...(typeof answer === 'string' ? [] : [[`${id} answer`, answer] as const]),
  ])

  it.each(schemas)('is a valid value of the schema: %s', (_, schema) => {
    const example = exampleOf(schema)
    const folder = Compile(schema)
    if (example !== undefined) expect(folder.Errors(example)[1]).toEqual([])
  })

  it('contains the first example of each property', () => {
    const schema = resource('Pair', { id: uuid(), name: text({ examples: ['left', 'right'] }) })
    expect(exampleOf(schema)).toEqual({ id: '0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10', name: 'left' })
  })
})
