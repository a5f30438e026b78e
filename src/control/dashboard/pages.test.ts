import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allOperations } from '../operations.ts'
import { createFixture, neverCalled } from '../../../test/support/api-fixture.ts'
import { dashboardPages } from './index.ts'

const settings = { captchaRequired: false } as const
const html = { accept: 'text/html,application/xhtml+xml' }
const script = `export const x = "${'long enough to compress '.repeat(100)}"`
const page = '<!doctype html><meta name="mote-captcha" content="" /><script src="/assets/a-1.js">'

let dir: string
let app: ReturnType<typeof createFixture>['app']

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-pages-'))
  await mkdir(join(dir, 'assets'))
  await writeFile(join(dir, 'index.html'), page)
  await writeFile(join(dir, '.built-from'), 'secret of the build')
  await writeFile(join(dir, 'assets', 'a-1.js'), script)
  await writeFile(join(dir, 'assets', 'a-1.js.br'), brotliCompressSync(script))
  await writeFile(join(dir, 'assets', 'a-1.js.gz'), gzipSync(script))
  app = createFixture({
    operations: allOperations,
    features: [neverCalled(allOperations)],
    pages: [dashboardPages(settings, dir)],
  }).app
})
afterAll(async () => {
  await app.close()
  await rm(dir, { recursive: true, force: true })
})

describe('the dashboard page', () => {
  it('is served to browsers at any path that has no other handler', async () => {
    for (const url of ['/', '/apps/web/deployments/job-1', '/signin?next=/apps', '/index.html', '/re-attached']) {
      const answer = await app.inject({ url, headers: html })
      expect(answer.statusCode, url).toBe(200)
      expect(answer.headers['content-type'], url).toBe('text/html; charset=utf-8')
      expect(answer.headers['cache-control'], url).toBe('no-cache')
    }
  })

  it('is not served at paths below those of the API, even if the API does not know the path', async () => {
    for (const url of ['/v1', '/v1/nothing', '/v1/apps', '/re-attach', '/validate', '/assets/gone-1.js']) {
      const answer = await app.inject({ url, headers: html })
      expect(answer.headers['content-type'], url).toBe('application/json')
      expect(answer.statusCode, url).toBeGreaterThanOrEqual(400)
    }
    const method = await app.inject({ url: '/re-attach', headers: html })
    expect([method.statusCode, method.headers.allow]).toEqual([405, 'POST, OPTIONS'])
  })

  it('is served neither to clients that do not accept HTML nor for POST requests', async () => {
    expect((await app.inject({ url: '/nothing', headers: { accept: 'application/json' } })).statusCode).toBe(404)
    expect((await app.inject({ method: 'POST', url: '/apps', headers: html })).statusCode).toBe(404)
  })

  it('allows only scripts and styles of this server, none of them inline', async () => {
    const { headers } = await app.inject({ url: '/', headers: html })
    const policy = String(headers['content-security-policy'])
    expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self'; /)
    expect(policy).not.toContain('unsafe')
    expect(policy).toContain("frame-ancestors 'none'")
    expect(headers['x-content-type-options']).toBe('nosniff')
  })

  it('contains the settings that the dashboard needs before its first request', async () => {
    const { body } = await app.inject({ url: '/', headers: html })
    expect(body).toContain('name="mote-captcha" content="off"')
  })

  it('has an entity tag, with which browsers check whether it has changed', async () => {
    const first = await app.inject({ url: '/', headers: html })
    const again = await app.inject({ url: '/', headers: { ...html, 'if-none-match': String(first.headers.etag) } })
    expect([again.statusCode, again.body]).toEqual([304, ''])
  })
})

describe('files of the dashboard', () => {
  it('are cached forever, and sent in an encoding that the browser accepts', async () => {
    const ask = (encoding: string) => app.inject({ url: '/assets/a-1.js', headers: { 'accept-encoding': encoding } })
    const [br, gzip, plain] = [await ask('gzip, deflate, br'), await ask('gzip'), await ask('br;q=0, identity')]
    expect(br.headers).toMatchObject({
      'content-encoding': 'br',
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'accept-encoding',
    })
    expect(brotliDecompressSync(br.rawPayload).toString()).toBe(script)
    expect(gunzipSync(gzip.rawPayload).toString()).toBe(script)
    expect([plain.headers['content-encoding'], plain.body]).toEqual([undefined, script])
  })

  it("are served only if the dashboard's build made them", async () => {
    for (const url of ['/.built-from', '/assets/../.built-from', '/assets/%2e%2e/.built-from', '/assets/a-1.js.br'])
      expect((await app.inject({ url })).statusCode, url).toBe(404)
  })

  it('can be requested without a rate limit', async () => {
    const answer = await app.inject({ url: '/assets/a-1.js' })
    expect(answer.headers['ratelimit-policy']).toBeUndefined()
  })
})

describe('a dashboard that was not built', () => {
  it('responds with a page that explains how to build it', async () => {
    const bare = createFixture({
      operations: allOperations,
      features: [neverCalled(allOperations)],
      pages: [dashboardPages(settings, join(dir, 'nothing'))],
    })
    const answer = await bare.app.inject({ url: '/', headers: html })
    expect(answer.body).toContain('npm run dashboard')
    await bare.app.close()
  })
})
