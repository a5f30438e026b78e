/**
 * Tests security rules from the API to the message that a host gets. Tests of their enforcement are in src/agent/net.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testSystem, type TestSystem, type TestUser } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { checkRule, enforcement, mostRules, nextPriority, type RuleRequest } from './rules.ts'

const request = (change: Partial<RuleRequest> = {}): RuleRequest => ({
  protocol: 'tcp',
  port_start: 80,
  port_end: 90,
  action: 'allow',
  ...change,
})

describe('a security rule', () => {
  it.each<[string, Partial<RuleRequest>, string]>([
    ['a reversed port range', { port_start: 91 }, 'port_start: must not be greater than port_end (90)'],
    ['a port out of range', { port_end: 65_536 }, 'port_end: must be at most 65535'],
    ['icmp with ports', { protocol: 'icmp' }, 'port_start: icmp has no ports'],
    ['port 0 of udp', { protocol: 'udp', port_start: 0, port_end: 0 }, 'port_end: port 0 is not valid'],
    ['an invalid network', { cidr: 'example.com' }, 'cidr: must be a network such as'],
    ['too long a prefix', { cidr: '10.0.0.0/33' }, 'cidr: must be a network such as'],
  ])('is refused with %s', (_what, change, message) => expect(() => checkRule(request(change))).toThrow(message))

  it('gets defaults for the direction, network and priority', () => {
    expect(checkRule(request({ cidr: '10.1.2.3/8' }))).toMatchObject({ direction: 'inbound', cidr: '10.0.0.0/8' })
    expect(checkRule(request({ protocol: 'icmp', port_start: 0, port_end: 0 }))).toMatchObject({ cidr: null })
    expect([null, 100, 65_530].map(nextPriority)).toEqual([100, 110, 65_535])
  })

  const observed = (version: number, state: 'applied' | 'unenforced' | 'failed') => ({
    version,
    state,
    detail: 'why',
    healed: 0,
  })
  it.each([
    ['every VM has applied it', [observed(3, 'applied'), observed(4, 'applied')], true, null],
    ['one is late', [observed(3, 'applied'), observed(2, 'applied')], false, 'not yet enforced for 1 of 2 VMs'],
    ['one has not reported', [null], false, 'not yet enforced for 1 of 1 VMs'],
    ['one cannot', [observed(3, 'applied'), observed(3, 'unenforced')], false, 'why'],
    ['one failed', [observed(3, 'failed')], false, 'a host could not load the rules and will retry: why'],
    ['there is none', [], false, 'the app has no VM; the rules apply when one starts'],
  ])('is reported as enforced only if every VM has applied it (case: %s)', (_what, vms, enforced, reason) =>
    expect(enforcement(3, vms)).toEqual({ enforced, reason }),
  )
})

describe('security rules over the API', () => {
  let system: TestSystem
  let user: TestUser
  const path = '/v1/apps/hello/security-groups'
  beforeAll(async () => {
    system = await testSystem()
    user = await system.user()
    await user.post('/v1/apps', { name: 'hello', git_url: '' })
  })
  afterAll(async () => system[Symbol.asyncDispose]())

  it('are listed in the order in which they apply, and can be deleted once', async () => {
    const first = await user.post(path, request())
    expect(first.body).toMatchObject({ protocol: 'tcp', port_start: 80, port_end: 90, action: 'allow', priority: 100 })
    expect(first.body).toMatchObject({ direction: 'inbound', cidr: null, enforced: false })
    const early = await user.post(path, request({ priority: 5, direction: 'outbound', cidr: '2001:DB8::/32' }))
    const last = await user.post(path, request({ action: 'deny' }))
    const ids = async () => (await user.get(path)).body.map((rule: { id: string }) => rule.id)
    expect(await ids()).toEqual([early.body.id, first.body.id, last.body.id])
    expect((await user.delete(`${path}/${first.body.id}`)).body).toEqual({ status: 'deleted' })
    expect((await user.delete(`${path}/${first.body.id}`)).status).toBe(404)
    expect((await user.delete(`${path}/nonsense`)).status).toBe(404)
    for (const id of await ids()) await user.delete(`${path}/${id}`)
  })

  it('are refused with the name of the invalid field', async () => {
    const { status, body } = await user.post(path, request({ port_start: 100 }))
    expect([status, body.details[0].field]).toEqual([400, 'port_start'])
    expect((await user.post(path, request({ port_end: 70_000 }))).status).toBe(400)
    expect((await user.post(path, { ...request(), protocol: 'sctp' })).body.details[0].field).toBe('protocol')
  })

  it('of another tenant are reported as not found', async () => {
    const foreign = await system.user()
    const mine = await user.post(path, request())
    expect((await foreign.get(path)).status).toBe(404)
    expect((await foreign.post(path, request())).status).toBe(404)
    expect((await foreign.delete(`${path}/${mine.body.id}`)).status).toBe(404)
    await foreign.post('/v1/apps', { name: 'hello', git_url: '' })
    expect((await foreign.delete(`${path}/${mine.body.id}`)).status).toBe(404)
    await user.delete(`${path}/${mine.body.id}`)
  })

  it('are applied to a running VM without a restart, and the API shows what the host reports about them', async () => {
    const { body } = await user.post('/v1/apps/hello/deploy', { image: 'example/app:1' })
    const status = async () => (await user.get(`/v1/apps/hello/deployments/${body.job_id}`)).body
    await until(async () => (await status()).status === 'running', { what: 'it runs' })
    const before = await status()
    const { body: rule } = await user.post(path, request())
    const reported = async () => {
      const [shown] = (await user.get(path)).body
      return shown.reason?.includes('simulates') ? shown : undefined
    }
    const shown = await until(reported, { what: 'the host has answered' })
    expect(shown).toMatchObject({ id: rule.id, enforced: false })
    const after = await status()
    expect([after.vm_id, after.started_at]).toEqual([before.vm_id, before.started_at])
    const current = {
      name: 'test.currentFirewall',
      text: `SELECT 1 FROM vm JOIN app a ON a.id = vm.app_id WHERE (seen_firewall ->> 'version')::int = a.firewall_version`,
    }
    await until(async () => (await system.database.db.rows(current)).length === 1, {
      what: 'it has the newest version',
    })
  })

  it('are limited in number, even with concurrent requests', async () => {
    await user.post('/v1/apps', { name: 'many', git_url: '' })
    const add = (count: number) =>
      Promise.all(Array.from({ length: count }, () => user.post('/v1/apps/many/security-groups', request())))
    for (let made = 0; made < mostRules - 5; made += 5)
      expect((await add(5)).map(({ status }) => status)).toEqual(Array(5).fill(200))
    const answers = await add(10)
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5)
    expect(answers.find(({ status }) => status !== 200)?.body).toMatchObject({ status: 409, code: 'invalid_state' })
  })
})
