import { apiDocsPages } from './docs.ts'
import { afterAll, describe, expect, it } from 'vitest'
import { allOperations } from '../operations.ts'
import { createFixture, neverCalled } from '../../../test/support/api-fixture.ts'

const { app } = createFixture({
  operations: allOperations,
  features: [neverCalled(allOperations)],
  pages: [apiDocsPages],
})
afterAll(() => app.close())

describe('the API explorer', () => {
  it('loads only files of this server, under a strict content security policy', async () => {
    const page = await app.inject({ url: '/v1/docs' })
    expect(page.statusCode).toBe(200)
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8')
    const policy = String(page.headers['content-security-policy'])
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("script-src 'self';")
    expect(page.body).not.toMatch(/https?:/)
    expect(page.body, 'no inline script').not.toMatch(/<script>/)
    const links = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(found => found[1] ?? '')
    expect(links).toHaveLength(4)
    for (const link of links) {
      const asset = await app.inject({ url: link })
      expect(asset.statusCode, link).toBe(200)
      expect(asset.rawPayload.length, link).toBeGreaterThan(100)
    }
    const start = await app.inject({ url: '/v1/docs/assets/start.js' })
    const [, url = ''] = /url: '([^']+)'/.exec(start.body) ?? []
    expect((await app.inject({ url })).json().openapi).toBe('3.1.0')
  })

  it('serves only those files of its npm package that the page loads', async () => {
    for (const name of ['..%2fpackage.json', 'index.html', 'logo.svg'])
      expect((await app.inject({ url: `/v1/docs/assets/${name}` })).statusCode, name).toBe(404)
  })
})

describe('the OpenAPI document', () => {
  it('has an entity tag, so that clients download it again only after a change', async () => {
    const first = await app.inject({ url: '/v1/api-docs/openapi.json' })
    const second = await app.inject({
      url: '/v1/api-docs/openapi.json',
      headers: { 'if-none-match': String(first.headers.etag) },
    })
    expect(second.statusCode).toBe(304)
  })
})

describe('the JSON Schema of mote.toml', () => {
  it('is served without a credential', async () => {
    const { statusCode, body } = await app.inject({ url: '/v1/api-docs/mote.schema.json' })
    expect(statusCode).toBe(200)
    expect(JSON.parse(body)).toMatchObject({
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      required: ['app'],
      properties: { processes: { properties: { web: { properties: { port: { default: 8080 } } } } } },
    })
  })
})
