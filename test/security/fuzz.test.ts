// Not repeated on the distribution's PostgreSQL: this file tests the API, not the database.
/**
 * Sends malformed requests to every API operation. None may get a 5xx, change a row or get an error without the usual
 * fields. An operation gets up to 34 malformed bodies, in `npm run test:all` 500, and with `MOTE_FUZZ=2000` up to
 * 2,000.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import type { Identity } from '../support/identity.ts'
import { type Belongings, type Case, bodyOf, everyOperation, pathOf, settle, startWholeApi } from './cases.ts'
import { runsAll } from '../support/all-examples.ts'
import { type Fingerprints, fingerprints } from './fingerprint.ts'
import { malformedBodies, randomFrom } from './malformed.ts'

const perOperation = Number(process.env['MOTE_FUZZ'] ?? (runsAll ? 500 : 100))
const sendsAll = runsAll || Boolean(process.env['MOTE_FUZZ'])
/**
 * In `npm test`, an operation gets every third of the malformed inputs. The operation before it and the one after it
 * get the other two thirds, which run the same code, because the server checks the inputs of all operations alike.
 */
const someOf = <T>(inputs: readonly T[], subject: Case) => {
  const at = cases.indexOf(subject)
  return inputs.filter((_, n) => sendsAll || n % 3 === at % 3)
}
const slowestMs = 250

let api: Identity
let prints: Fingerprints
let owner: Belongings
let cases: readonly Case[]
let requests = 0
const times: number[] = []
const statuses = new Map<number, number>()

beforeAll(async () => {
  api = await startWholeApi()
  owner = await settle(api)
  prints = await fingerprints(api.url)
  cases = everyOperation(api)
})
afterAll(async () => {
  await prints.close()
  await api[Symbol.asyncDispose]()
  times.sort((a, b) => a - b)
  const p99 = times[Math.floor(times.length * 0.99)] ?? 0
  const by = [...statuses].sort(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`)
  process.stdout.write(
    `fuzz: ${requests} requests to ${cases.length} operations, p99 ${p99.toFixed(1)} ms (${by.join(', ')})\n`,
  )
})

async function send(subject: Case, what: string, url: string, payload?: string | Buffer, headers = {}) {
  requests++
  const began = performance.now()
  const reply = await api.app.inject({
    method: subject.operation.method,
    url,
    headers: { authorization: `Bearer ${owner.person.token}`, ...headers },
    ...(payload === undefined ? {} : { payload }),
  })
  times.push(performance.now() - began)
  statuses.set(reply.statusCode, (statuses.get(reply.statusCode) ?? 0) + 1)
  const context = [subject.id, what, reply.statusCode, reply.body.slice(0, 300)]
  // 501: the operation is declared but not implemented yet.
  expect(reply.statusCode < 500 || reply.statusCode === 501, context.join(' ')).toBe(true)
  if (reply.statusCode < 400) return reply
  const body: unknown = JSON.parse(reply.body)
  expect(body, context.join(' ')).toMatchObject({
    error: expect.any(String),
    status: reply.statusCode,
    code: expect.any(String),
  })
  return reply
}

it('every operation with a body rejects malformed bodies', async () => {
  const before = await prints.take()
  for (const subject of cases) {
    const { operation } = subject
    const example = bodyOf(subject)
    if (!operation.body || example === undefined) continue
    const random = randomFrom(perOperation + subject.id.length)
    const bodies = malformedBodies(operation.body, example, perOperation, random)
    for (const { what, payload, contentType } of someOf(bodies, subject)) {
      const headers = { 'content-type': contentType ?? 'application/json' }
      const reply = await send(subject, what, pathOf(subject, owner.params), payload, headers)
      expect(
        reply.statusCode,
        `${subject.id}: ${what} was accepted: ${String(payload).slice(0, 200)}`,
      ).toBeGreaterThanOrEqual(400)
    }
  }
  expect(await prints.take()).toEqual(before)
  expect(times.filter(ms => ms > slowestMs).length).toBeLessThan(times.length / 100)
}, 240_000)

const oddSegments = [
  '%00',
  'a%00b',
  '%2e%2e',
  '..%2f..%2fetc',
  '%2f',
  '%',
  '%zz',
  '%ed%a0%80',
  '%F0%9F%98%80',
  '%20',
  '*',
  "'%20OR%201=1--",
  'x'.repeat(600),
  '-1',
  '0',
  'null',
  'undefined',
  '__proto__',
  'constructor',
  '00000000-0000-0000-0000-000000000000',
  `${newId()}x`,
  newId().toUpperCase(),
  '{app_name}',
  '%252e',
  'é',
  '+',
  ';',
  '%0d%0aSet-Cookie:x=1',
]

it('malformed path parameters match no resource', async () => {
  const before = await prints.take()
  for (const subject of cases) {
    const names = [...subject.operation.path.matchAll(/\{(\w+)\}/g)].map(match => match[1] ?? '')
    if (subject.operation.auth === 'none') continue
    for (const name of names) {
      // Skip PUT, which would create a resource with this name. Separate tests cover which names are valid.
      if (subject.operation.method === 'PUT' && subject.operation.path.endsWith(`{${name}}`)) continue
      for (const odd of someOf(oddSegments, subject)) {
        // Skip valid names of variables: the request would create the variable.
        if (subject.id === 'putAppEnv' && name === 'name' && /^[A-Za-z_]\w*$/.test(odd)) continue
        const marker = 'odd-segment'
        const url = pathOf(subject, { ...owner.params, [name]: marker }).replace(marker, odd)
        // Skip paths with `..` that clients resolve to the path of another operation before they send the request.
        const resolved = new URL(url, 'http://x').pathname
        if (resolved !== url && cases.some(other => pathOf(other, owner.params) === resolved)) continue
        const body = bodyOf(subject)
        const headers = body ? { 'content-type': 'application/json' } : {}
        const reply = await send(subject, `${name} = ${odd}`, url, body && JSON.stringify(body), headers)
        expect(reply.statusCode, `${subject.id} ${url}`).toBeGreaterThanOrEqual(400)
      }
    }
  }
  expect(await prints.take()).toEqual(before)
}, 120_000)

const oddValues = [
  '-1',
  'x',
  '1e9',
  '9999999999999999999',
  '',
  '1.5',
  'NaN',
  '%00',
  '%ed%a0%80',
  'true',
  '[]',
  'x'.repeat(3000),
  '1&limit=2',
  '٣',
]

it('malformed query parameters never cause a server error or a change', async () => {
  const before = await prints.take()
  for (const subject of cases) {
    const { operation } = subject
    // Send only GET requests: other requests may ignore the query parameters and then change resources.
    if (operation.method !== 'GET' || operation.answer === 'stream' || !operation.query) continue
    const fields = Object.keys((Reflect.get(operation.query, 'properties') ?? {}) as object)
    for (const field of [...fields, 'project', 'unknown', '__proto__'])
      for (const odd of someOf(oddValues, subject))
        await send(subject, `${field} = ${odd}`, `${pathOf(subject, owner.params)}?${field}=${odd}`)
  }
  // Ignore the table of captchas: reading a captcha inserts a row.
  const { captcha: _, ...after } = await prints.take()
  expect(after).toEqual(Object.fromEntries(Object.entries(before).filter(([name]) => name !== 'captcha')))
}, 120_000)

it('malformed Idempotency-Key and Authorization headers are rejected', async () => {
  const before = await prints.take()
  const [subject] = cases.filter(({ id }) => id === 'createToken')
  if (!subject) throw new Error('createToken is gone')
  const body = JSON.stringify(bodyOf(subject))
  const odd: Record<string, string>[] = [
    { 'idempotency-key': '' },
    { 'idempotency-key': 'x'.repeat(300) },
    { 'idempotency-key': 'a b' },
    { authorization: 'Bearer' },
    { authorization: `Bearer ${'x'.repeat(10_000)}` },
    { authorization: 'Bearer \u00ff' },
  ]
  for (const headers of odd) {
    const reply = await send(subject, JSON.stringify(headers).slice(0, 60), '/v1/auth/tokens', body, {
      'content-type': 'application/json',
      ...headers,
    })
    expect(reply.statusCode).toBeGreaterThanOrEqual(400)
  }
  expect(await prints.take()).toEqual(before)
})
