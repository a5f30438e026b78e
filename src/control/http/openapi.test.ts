import { createConfig, lintFromString } from '@redocly/openapi-core'
import { describe, expect, it } from 'vitest'
import { allOperations } from './catalogue.ts'
import { buildOpenApi } from './openapi.ts'
import { tagDescriptions } from './tags.ts'
import { resource, text } from './types.ts'

const lint = async (document: unknown) =>
  lintFromString({
    source: JSON.stringify(document),
    absoluteRef: 'openapi.json',
    config: await createConfig({ extends: ['recommended'] }),
  })

describe('the OpenAPI document', () => {
  it('passes the linter without an error or a warning', async () => {
    const problems = await lint(buildOpenApi(allOperations))
    expect(problems.map(problem => `${problem.ruleId}: ${problem.message}`)).toEqual([])
  })

  it('would fail the linter with a hole in it', async () => {
    const document = buildOpenApi(allOperations)
    const problems = await lint({ ...document, components: {} })
    expect(problems.length).toBeGreaterThan(0)
  })

  it('explains every tag', () => {
    const tags = new Set(Object.values(allOperations).map(operation => operation.tag))
    expect([...tags].filter(tag => !(tag in tagDescriptions))).toEqual([])
  })

  it('has one component for a name', () => {
    const operation = { ...allOperations.getHealth!, answer: resource('Health', { other: text() }) }
    expect(() => buildOpenApi({ ...allOperations, otherHealth: { ...operation, path: '/v1/other' } })).toThrow(
      'two different schemas are called Health',
    )
  })
})
