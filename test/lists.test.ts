/**
 * Lists of the API: complete without `limit`, paginated with `Link` headers if `limit` is given, and stable while items
 * are inserted and deleted.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bearer, createFixture, neverCalled } from './support/api-fixture.ts'
import { allOperations } from '../src/control/operations.ts'
import { feature, type Operation } from '../src/control/http/operation.ts'
import { itemOf, type ListRule } from '../src/control/http/paging.ts'
import { notify } from '../src/control/notifications/index.ts'
import type { Answer } from './support/api.ts'
import { type TestSystem, type TestUser, testSystem } from './support/system.ts'

/** List operations without pagination, because they return several lists, or state whether the list is complete. */
const wholeAnswers = ['listMembers', 'listBillingProducts', 'listVmFiles', 'listVmProcesses']

const isArray = ({ answer }: Operation) => typeof answer === 'object' && Reflect.get(answer, 'type') === 'array'
const lists = Object.entries(allOperations).flatMap(([id, operation]) =>
  operation.list ? [{ id, operation, rule: operation.list }] : [],
)
const nameOf = (order: string) => order.replace(/^-/, '')

it('every operation that returns a list declares its pagination', () => {
  const answering = Object.entries(allOperations).filter(
    ([id, operation]) => operation.method === 'GET' && (isArray(operation) || id.startsWith('list')),
  )
  expect(answering.map(([id]) => id).filter(id => !wholeAnswers.includes(id))).toEqual(lists.map(({ id }) => id))
})

it.each(lists)('each order and filter that $id declares is a field of its items', ({ operation, rule }) => {
  // Skip operations for whose response the OpenAPI document defines no fields (lists of VM snapshots).
  if (operation.answer === 'free') return
  const members = Object.keys(itemOf(rule, operation.answer))
  expect(members).toEqual(expect.arrayContaining([...rule.order.map(nameOf), ...(rule.filters ?? [])]))
})

describe('a list that the server paginates in memory', () => {
  let items: Record<string, string | number>[] = []
  const operations = Object.fromEntries(
    lists.map(({ id, operation }) => [id, { ...operation, answer: 'free' as const }]),
  )
  const read = async (): Promise<unknown> => items
  const features = [feature(operations, Object.fromEntries(lists.map(({ id }) => [id, { read }])))]
  const { app } = createFixture({ operations, features })
  afterAll(() => app.close())
  const pathOf = ({ path }: Operation) => path.replaceAll(/\{\w+\}/g, '00000000-0000-7000-8000-000000000001')
  const get = async (url: string) => {
    const answer = await app.inject({ url, headers: bearer('root') })
    expect(answer.statusCode, answer.body).toBe(200)
    const next = /^<([^>]+)>; rel="next"$/.exec(String(answer.headers['link'] ?? ''))?.[1]
    return { items: answer.json<unknown[]>(), next }
  }
  const itemOfRule = ({ order, filters = [] }: ListRule, n: number) =>
    Object.fromEntries([...filters, ...order.map(nameOf)].map(name => [name, `2026-${String(n).padStart(4, '0')}`]))

  it.each(lists)('the pages of $id skip and repeat no item while others change', async ({ operation, rule }) => {
    const url = pathOf(operation)
    const isDescending = rule.order[0].startsWith('-')
    const newestLast = Array.from({ length: 120 }, (_, n) => itemOfRule(rule, n * 2))
    const ordered = isDescending ? newestLast.toReversed() : newestLast
    items = newestLast
    if (rule.defaultLimit === undefined) expect((await get(url)).items).toEqual(ordered)
    const first = await get(`${url}?limit=7`)
    expect(first.items).toEqual(ordered.slice(0, 7))
    // Between two pages, remove the items at and after the cursor, and add an item at each end.
    items = [
      ...newestLast.filter(item => item !== ordered[6] && item !== ordered[8]),
      itemOfRule(rule, -1),
      itemOfRule(rule, 999),
    ]
    const rest: unknown[] = []
    for (let next = first.next; next !== undefined; ) {
      const page = await get(next)
      rest.push(...page.items)
      next = page.next
    }
    const added = [itemOfRule(rule, 999), itemOfRule(rule, -1)]
    const expected = ordered.slice(7).filter(item => item !== ordered[8])
    expect(rest.filter(item => !added.some(one => JSON.stringify(one) === JSON.stringify(item)))).toEqual(expected)
    for (const filter of rule.filters ?? []) {
      const { properties = {} } = operation.query as { properties?: Record<string, { enum?: string[] }> }
      const value = properties[filter]?.enum?.[0] ?? 'wanted'
      items = [...newestLast, { ...itemOfRule(rule, 1), [filter]: value }]
      const only = await get(`${url}?${filter}=${value}`)
      expect(only.items.map(item => Reflect.get(Object(item), filter))).toEqual([value])
    }
    items = newestLast
    expect((await app.inject({ url: `${url}?cursor=nonsense`, headers: bearer('root') })).statusCode).toBe(400)
  })
})

it('the OpenAPI document has the pagination parameters and the Link header of every list', async () => {
  const { app } = createFixture({ operations: allOperations, features: [neverCalled(allOperations)] })
  const document = (await app.inject({ url: '/v1/api-docs/openapi.json' })).json()
  for (const { id, operation, rule } of lists) {
    const described = document.paths[operation.path].get
    const names = described.parameters.map((one: { name: string }) => one.name)
    expect(names, id).toEqual(expect.arrayContaining(['limit', 'cursor', 'offset', ...(rule.filters ?? [])]))
    expect(described.responses['200'].headers, id).toHaveProperty('Link')
  }
  await app.close()
})

describe('a list that is paginated in SQL', () => {
  let system: TestSystem
  let user: TestUser
  let appCount = 0
  let projectId: string
  const addApp = () => user.post('/v1/apps', { name: `app-${appCount++}`, git_url: '' })
  const deploy = (app: string) => user.post('/v1/deploy', { app_name: app, image: 'debian:13' })
  const stores = {
    listApps: { path: '/v1/apps', add: addApp },
    listDeployments: { path: '/v1/apps/deployed/deployments', add: () => deploy('deployed') },
    listActiveDeployments: { path: '/v1/deployments/active', add: () => deploy('deployed') },
    listBuilds: { path: '/v1/apps/built/builds', add: () => user.post('/v1/apps/built/deploy', {}) },
    listAuditLogs: { path: '/v1/audit-logs', add: addApp },
    listNotifications: {
      path: '/v1/notifications',
      add: () => system.database.db.tx(tx => notify(tx, notice(projectId))),
    },
  }
  beforeAll(async () => {
    system = await testSystem({ agents: 0 })
    user = await system.user()
    projectId = (await user.get('/v1/projects')).body[0].id
    await user.post('/v1/apps', { name: 'built', git_url: 'https://example.com/built.git' })
    await user.post('/v1/apps', { name: 'deployed', git_url: '' })
  })
  afterAll(async () => system[Symbol.asyncDispose]())

  const idsOf = (body: unknown): string[] => {
    const rows = Array.isArray(body)
      ? body
      : (Reflect.get(Object(body), 'items') ?? Reflect.get(Object(body), 'notifications'))
    return rows.map((row: { id?: string; deployment_id?: string }) => row.id ?? row.deployment_id)
  }
  const nextOf = ({ headers }: Answer) => /^<([^>]+)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1]

  it.each(Object.entries(stores))('%s skips and repeats no item while others are added', async (_id, { path, add }) => {
    for (let n = 0; n < 55; n++) await add()
    const whole = await user.get(`${path}${path.includes('audit') || path.includes('notif') ? '?limit=1000' : ''}`)
    const all = idsOf(whole.body)
    expect(all.length).toBeGreaterThanOrEqual(55)
    expect(all).toEqual(all.toSorted().toReversed())
    const found: string[] = []
    for (let next: string | undefined = `${path}?limit=20`; next !== undefined; ) {
      const page = await user.get(next)
      expect(page.status, JSON.stringify(page.body)).toBe(200)
      found.push(...idsOf(page.body))
      next = nextOf(page)
      await add()
    }
    expect(found.toSorted()).toEqual(all.toSorted())
  })

  it('applies filters before pagination', async () => {
    const page = await user.get('/v1/deployments/active?app_name=deployed&status=pending&limit=1')
    expect(page.body).toHaveLength(1)
    expect((await user.get(nextOf(page) ?? '')).body[0].deployment_id).not.toBe(page.body[0].deployment_id)
    expect((await user.get('/v1/deployments/active?status=running')).body).toEqual([])
    expect((await user.get('/v1/apps?name=built')).body.map((app: { name: string }) => app.name)).toEqual(['built'])
  })

  it('rejects the cursor of another list', async () => {
    const named = Buffer.from(JSON.stringify(['name'])).toString('base64url')
    expect(await user.get(`/v1/apps?cursor=${named}`)).toMatchObject({ status: 400, body: { code: 'invalid_request' } })
  })
})

const notice = (projectId: string) => ({
  projectId,
  kind: 'deployment.failed' as const,
  title: 'It failed',
  body: 'The last lines of the log.',
  entityName: 'shop',
  resourceId: 'some-id',
  route: '/apps/shop',
})
