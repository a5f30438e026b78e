/**
 * Not repeated on the distribution's PostgreSQL: this file tests real VMs, not the database. A VM moves back and forth
 * between two agents while requests arrive through two gateways. MOTE_MOVES sets the number of moves.
 */
import { homedir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { writeSampleImage } from '../../src/agent/image/sample.ts'
import type { Agent } from '../../src/agent/main.ts'
import { gatewayDefaults } from '../../src/gateway/config.ts'
import { type Gateway, startGateway } from '../../src/gateway/main.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { viaGateway } from '../support/http.ts'
import { testLog } from '../support/log.ts'
import { loopScripts, startRequestLoops } from '../support/request-loops.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

const needed = ['qemu-system-x86_64', 'skopeo', 'umoci', 'mke2fs']
const present = await Promise.all(needed.map(hasProgram))
const missing = needed.filter((_, n) => !present[n])
const why = missing.length > 0 ? `skipped, not installed: ${missing.join(', ')}` : ''
const network = process.getuid?.() === 0 ? 'tap' : 'user'
const moves = Number(process.env['MOTE_MOVES'] ?? 3)
/** Long timeout, because emulated guests share the cores with other tests. */
const patient = { timeoutMs: 90_000, everyMs: 20 }

describe.skipIf(why !== '')(`moves under load on ${network} ${why}`, { timeout: 120_000 + moves * 60_000 }, () => {
  let system: TestSystem
  let user: TestUser
  let agents: Agent[]
  let second: Gateway

  beforeAll(async () => {
    system = await testSystem({ agents: 0 })
    second = await startGateway({ ...gatewayDefaults, host: '127.0.0.1', port: 0 }, { bus: system.bus, log: testLog() })
    user = await system.user()
    await writeSampleImage(join(system.dir, 'images', 'loops'), { scripts: loopScripts })
    const cacheDir = join(homedir(), '.cache', 'mote')
    const real = { hypervisor: 'qemu', network, cacheDir, imageDir: join(system.dir, 'images') } as const
    agents = [await system.addAgent(real), await system.addAgent(real)]
    const ready = async () =>
      (await user.get('/v1/admin/hosts')).body.filter((host: { hypervisors: { available: boolean }[] }) =>
        host.hypervisors.some(one => one.available),
      ).length === 2
    await until(ready, { ...patient, what: 'both hosts to offer QEMU' })
  }, 180_000)
  afterAll(async () => {
    await second.stop(100)
    await system[Symbol.asyncDispose]()
  })

  it(`no HTTP request fails during ${moves} moves of the VM`, async () => {
    const app = { name: 'loops', git_url: '', health_check_path: '/health', drain_timeout: 0 }
    const { hostname } = (await user.post('/v1/apps', app)).body
    const job = (await user.post('/v1/apps/loops/deploy', { image: 'oci:loops' })).body.job_id
    const at = (path = '') => `/v1/apps/loops/deployments/${job}${path && `/${path}`}`
    const status = async () => (await user.get(at())).body
    await until(async () => (await status()).status === 'running', { ...patient, what: 'it runs' })
    const ports = [system.gateway.port, second.port]
    for (const port of ports)
      await until(async () => (await viaGateway(port, hostname, '/health')).status === 200, {
        ...patient,
        what: 'it answers',
      })
    const loops = startRequestLoops(ports, hostname)
    for (let n = 0; n < moves; n++) {
      const from = (await status()).host_id
      const target = agents.find(agent => agent.hostId !== from)?.hostId
      const started = await user.post(at('migration/start'), { target_host: target, target_uri: '' })
      expect(started.status, JSON.stringify(started.body)).toBe(200)
      const migration = async () => (await user.get(at('migration/status'))).body
      await until(async () => (await migration()).ended_at !== null, { ...patient, what: 'the move to end' })
      expect(await migration()).toMatchObject({ status: 'completed', error: null })
      await until(async () => (await status()).status === 'running', {
        ...patient,
        what: 'the VM to run on the target',
      })
    }
    const { asked, faults, longestMs } = await loops.end()
    console.info(
      `${moves} moves: ${asked} requests, ${faults.length} not answered, the longest took ${longestMs.toFixed(0)} ms`,
    )
    expect(faults).toEqual([])
  })
})
