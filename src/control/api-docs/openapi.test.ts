import { createConfig, lintFromString } from '@redocly/openapi-core'
import { type RulesetDefinition, Spectral } from '@stoplight/spectral-core'
import { oas } from '@stoplight/spectral-rulesets'
import { describe, expect, it } from 'vitest'
import { allOperations } from '../operations.ts'
import { buildOpenApi } from './openapi.ts'
import { tagDescriptions } from '../http/tags.ts'
import { resource, text } from '../http/types.ts'

/**
 * All operations except WebSockets: linters require a 2xx status, which a WebSocket handshake does not have (RFC 6455,
 * 4.2.2).
 */
const requests = Object.fromEntries(Object.entries(allOperations).filter(([, { answer }]) => answer !== 'socket'))

const lint = async (document: unknown) =>
  lintFromString({
    source: JSON.stringify(document),
    absoluteRef: 'openapi.json',
    config: await createConfig({ extends: ['recommended'] }),
  })

/** Rules of Spectral's OpenAPI rule set that are disabled. */
const otherwise = {
  // The document has no contact, because an installation has neither a contact page nor a fixed URL.
  'contact-properties': 'off',
  // The document identifies its license by an SPDX identifier, and OpenAPI 3.1 does not allow a URL in addition.
  'license-url': 'off',
  // Tags are sorted for readers of the documentation, not by the alphabet.
  'openapi-tags-alphabetical': 'off',
  // Redocly's linter, which also runs here, compares examples with schemas in a fifth of Spectral's time.
  'oas3-valid-media-example': 'off',
  'oas3-valid-schema-example': 'off',
} as const

async function spectralFaults(document: unknown): Promise<string[]> {
  const spectral = new Spectral()
  // The TypeScript types of Spectral's packages do not match each other.
  const every = oas as unknown as RulesetDefinition
  spectral.setRuleset({ extends: [[every, 'all']], rules: otherwise })
  const problems = await spectral.run(JSON.stringify(document))
  return problems.map(({ code, message, path }) => `${code}: ${path.join('.')}: ${message}`)
}

describe('the OpenAPI document', () => {
  it('passes Spectral without an error or a warning', { timeout: 60_000 }, async () => {
    expect(await spectralFaults(buildOpenApi(requests))).toEqual([])
  })

  it('does not pass Spectral with an undeclared path parameter', async () => {
    const { getHealth } = allOperations
    const faults = await spectralFaults(buildOpenApi({ getHealth: { ...getHealth!, path: '/v1/health/{part}' } }))
    expect(faults.join()).toContain('path-params')
  })

  it('passes the Redocly linter without an error or a warning', async () => {
    const problems = await lint(buildOpenApi(requests))
    expect(problems.map(problem => `${problem.ruleId}: ${problem.message}`)).toEqual([])
  })

  it('does not pass the Redocly linter with a missing component', async () => {
    const document = buildOpenApi(allOperations)
    const problems = await lint({ ...document, components: {} })
    expect(problems.length).toBeGreaterThan(0)
  })

  it('declares the kinds of events of every stream', () => {
    const streams = Object.entries(allOperations).filter(([, { answer }]) => answer === 'stream')
    expect(streams.length).toBeGreaterThan(8)
    const bare = streams.filter(([, { events = {} }]) => Object.keys(events).length < 2)
    expect(bare.map(([id]) => id)).toEqual([])
    const others = Object.entries(allOperations).filter(([, { answer, events }]) => answer !== 'stream' && events)
    expect(others.map(([id]) => id)).toEqual([])
  })

  it('describes every tag', () => {
    const tags = new Set(Object.values(allOperations).map(operation => operation.tag))
    expect([...tags].filter(tag => !(tag in tagDescriptions))).toEqual([])
  })

  it('cannot be built if two different schemas have the same name', () => {
    const operation = { ...allOperations.getHealth!, answer: resource('Health', { other: text() }) }
    expect(() => buildOpenApi({ ...allOperations, otherHealth: { ...operation, path: '/v1/other' } })).toThrow(
      'two different schemas are called Health',
    )
  })
})

it.each([
  ['/v1/auth/login', 'post', ['401']],
  ['/v1/auth/refresh', 'post', ['401']],
  ['/v1/webhooks/scm/{app_name}', 'post', ['401']],
  ['/v1/webhooks/billing', 'post', ['401', '404']],
  ['/re-attach', 'post', ['403', '404']],
  ['/validate', 'post', ['403']],
  ['/v1/databases/{id}/connection', 'get', ['409']],
  ['/v1/scm/install', 'get', ['409']],
  ['/v1/apps/{app_name}/deployments/{job_id}/balloon', 'get', ['409']],
  ['/v1/apps/{app_name}', 'patch', ['412']],
])('%s %s documents its error responses: %j', (path, method, statuses) => {
  const { paths } = buildOpenApi(allOperations) as {
    paths: Record<string, Record<string, { responses: Record<string, unknown> }>>
  }
  const documented = Object.keys(paths[path]?.[method]?.responses ?? {})
  expect(documented).toEqual(expect.arrayContaining(statuses))
  expect(documented).not.toContain('501')
})
