// Not repeated on the distribution's PostgreSQL: this file tests real VMs, not the database.
/** Private networks between real VMs: names, addresses, and firewall rules that take effect on a running VM. */
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { agentConfig } from '../../src/agent/base/config.ts'
import { writeSampleImage } from '../../src/agent/image/sample.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { viaGateway } from '../support/http.ts'
import { testSystem, type TestSystem, type TestUser } from '../support/system.ts'
import { promisedMs, until } from '../support/wait.ts'

const needed = ['qemu-system-x86_64', 'umoci', 'mke2fs', 'nft']
const missing = (await Promise.all(needed.map(hasProgram))).flatMap((there, at) => (there ? [] : [needed[at]]))
const why =
  process.getuid?.() !== 0 ? 'needs root' : missing.length > 0 ? `skipped, not installed: ${missing.join(', ')}` : ''
/** Long timeout, because emulated guests of several test files share two cores. */
const bootMs = 90_000

describe.skipIf(why !== '')(`private networks of real guests ${why}`, { timeout: 120_000 }, () => {
  let system: TestSystem
  let user: TestUser
  const jobs = new Map<string, string>()
  const status = async (app: string) => (await user.get(`/v1/apps/${app}/deployments/${jobs.get(app)}`)).body
  const host = (app: string) => `${app}-${user.project}.localhost`
  const rulesOf = (app: string) => `/v1/apps/${app}/security-groups`

  /** Runs a script in the app's VM and returns its output. */
  const inGuest = async (app: string, script: string) => {
    const body = { command: ['/bin/sh', '-c', script], timeout_ms: 20_000 }
    const answer = await user.post(`/v1/apps/${app}/deployments/${jobs.get(app)}/exec`, body)
    expect(answer.status, JSON.stringify(answer.body)).toBe(200)
    return String(answer.body.stdout)
  }
  const ask = (app: string, name: string) =>
    inGuest(app, `printf 'GET /health HTTP/1.0\\r\\n\\r\\n' | nc -w 2 ${name} 8080 | tail -n 1 || true`)

  beforeAll(async () => {
    system = await testSystem({ agents: 0 })
    const { cacheDir } = agentConfig({ dataDir: '', hostName: '' })
    const imageDir = join(system.dir, 'images')
    await writeSampleImage(join(imageDir, 'hello'))
    await system.addAgent({ hypervisor: 'qemu', network: 'tap', imageDir, cacheDir })
    user = await system.user()
    const offered = async () => JSON.stringify((await user.get('/v1/admin/hosts')).body).includes('"available":true')
    await until(offered, { what: 'the host to offer a hypervisor', timeoutMs: bootMs })
    for (const app of ['web', 'shop']) {
      await user.post('/v1/apps', { name: app, git_url: '', health_check_path: '/health' })
      const { status, body } = await user.post(`/v1/apps/${app}/deploy`, { image: 'oci:hello', memory_mib: 512 })
      expect(status, JSON.stringify(body)).toBe(200)
      jobs.set(app, body.job_id)
    }
    for (const app of jobs.keys())
      await until(async () => (await status(app)).status === 'running', { what: `${app} runs`, timeoutMs: bootMs })
  }, 2 * bootMs)
  afterAll(async () => {
    // Delete the VMs, because a stopped VM would leave its tap behind.
    for (const app of jobs.keys()) await user.delete(`/v1/apps/${app}`)
    const vms = { name: 'test.vms', text: 'SELECT id FROM vm' }
    await until(async () => (await system.database.db.rows(vms)).length === 0, {
      what: 'every VM to be removed',
      timeoutMs: bootMs,
    })
    await system[Symbol.asyncDispose]()
  }, bootMs)

  it('a guest has the address that the API reports, and reaches another app by name', async () => {
    const { ipv6_address: address } = await status('shop')
    expect(await inGuest('shop', 'cat /proc/net/if_inet6')).toContain(
      address
        .split(':')
        .map((group: string) => group.padStart(4, '0'))
        .join(''),
    )
    await until(async () => (await ask('web', 'shop.internal')).trim() === 'ok', {
      what: 'web to reach shop',
    })
    expect(await ask('web', address)).toContain('ok')
    expect(await ask('web', 'nobody.internal')).toBe('')
  })

  it('firewall rules take effect within a second without a restart of the VM', async () => {
    const before = await status('shop')
    const through = async () => (await viaGateway(system.gateway.port, host('shop'), '/health')).status
    expect(await through()).toBe(200)

    const app = { protocol: 'tcp', port_start: 8080, port_end: 8080 }
    const startedMs = performance.now()
    const { body: rule } = await user.post(rulesOf('shop'), { ...app, action: 'deny' })
    const enforced = async () => (await user.get(rulesOf('shop'))).body[0].enforced
    await until(enforced, { what: 'the host to apply the rule', everyMs: 20 })
    const tookMs = performance.now() - startedMs
    expect(await ask('web', 'shop.internal')).toBe('')

    await user.delete(`${rulesOf('shop')}/${rule.id}`)
    await until(async () => (await ask('web', 'shop.internal')).trim() === 'ok', {
      what: 'traffic to pass again',
    })
    expect(await through()).toBe(200)
    const after = await status('shop')
    expect([after.vm_id, after.started_at, after.status]).toEqual([before.vm_id, before.started_at, 'running'])
    // The documentation promises one second; `promisedMs` allows more on an overloaded machine.
    expect(tookMs).toBeLessThan(promisedMs(1_000))
  })
})
