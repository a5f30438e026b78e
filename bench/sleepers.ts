/**
 * Measures the time to wake one app while 100, 1,000 and 10,000 other apps are suspended. Hosts are simulated, so the
 * time does not include the start of a VM.
 */
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { runningEmbeddedUrl } from '../src/db/embedded.ts'
import type { Benchmark } from './benchmark.ts'
import { type BenchCloud, startBenchCloud, untilAnswer } from './cloud.ts'
import { growthOf, type Sized } from './planes.ts'

const rounds = 5
const sizes = [100, 1000, 10_000] as const
const name = 'sleeper'

interface Sleeper {
  /** Returns the milliseconds from a request to the suspended app to its response. */
  wake(): Promise<number>
}

/**
 * SQL that adds suspended apps of a hundred other tenants, with their routes. The workflows of their deployments wake
 * up once a minute, as in production.
 */
const seed = `
  WITH tenants AS (
    INSERT INTO project (id, slug, name, plan, ipv6_prefix)
    SELECT gen_random_uuid(), 'tenant-' || t, 'tenant', 'unlimited', 'fd00:0:0:' || to_hex(t) || '::/64' FROM generate_series(1, 100) t
    RETURNING id),
  numbered AS (SELECT id, row_number() OVER () AS t FROM tenants),
  made AS (
    INSERT INTO app (id, project_id, name, git_url, port, health_check_path, drain_timeout, desired_replicas, min_replicas,
      max_replicas, autoscaling_enabled, cpu_threshold, mem_threshold, hostname, scm_webhook_secret, scale_state, active_deployment_id)
    SELECT gen_random_uuid(), p.id, 'other-' || n, '', 8080, '/', 0, 1, 0, 1, false, 80, 80, 'other-' || n || '.bench', '', 'scaled_to_zero',
      gen_random_uuid()
    FROM generate_series(1, $1::int) n JOIN numbered p ON p.t = 1 + n % 100 RETURNING *),
  deployed AS (
    INSERT INTO deployment (id, app_id, project_id, disk_mib, memory_mib, vcpus, hypervisor, image, job_id, port, trigger_source, started_at)
    SELECT active_deployment_id, id, project_id, 1024, 512, 1, 0, 'example/app:1', 'job-' || id, 8080, 'api', now() FROM made RETURNING id),
  routed AS (
    INSERT INTO route (hostname, project_id, app_id, state, backends, drain_seconds)
    SELECT hostname, project_id, id, 'sleeping', '[]', 0 FROM made)
  INSERT INTO machine (id, kind, phase, wake_at)
  SELECT id, 'deployment', 'sleeping', now() + random() * interval '1 minute' FROM deployed`

async function seedSleepers({ dir }: BenchCloud, count: number): Promise<void> {
  const connectionString = await runningEmbeddedUrl(join(dir, 'postgres'))
  const sql = new pg.Client({ connectionString })
  await sql.connect()
  try {
    await sql.query(seed, [count])
    await sql.query('VACUUM ANALYZE')
  } finally {
    await sql.end()
  }
}

async function startSleeper(cloud: BenchCloud): Promise<Sleeper> {
  const { client } = cloud
  const body = { name, git_url: '', min_replicas: 0, drain_timeout: 0 }
  const { hostname } = await client.createApp({ body })
  const { job_id } = await client.deployApp({ app_name: name, body: { image: 'example/app:1' } })
  await untilAnswer(cloud, hostname ?? '')
  return {
    async wake() {
      for (const deadline = performance.now() + 120_000; performance.now() < deadline; await pause(200))
        if ((await client.getDeployment({ app_name: name, job_id })).status === 'sleeping')
          return untilAnswer(cloud, hostname ?? '')
      throw new Error('the app did not fall asleep within two minutes')
    },
  }
}

export const sleepers: Benchmark = {
  name: 'sleepers',
  goal: 'waking one app takes as long among 10,000 apps that are scaled to zero as among 100',
  covers: ['B10'],
  how: 'Runs three installations (mote up with simulated hosts) with 100, 1,000 and 10,000 apps of other tenants that are scaled to zero, each app with a route in the gateway and a workflow. In turn, each one gets a request through the gateway for an app with a snapshot as soon as it is scaled to zero: route, wake-up, placement, agent, health check, route, answer.',
  reading:
    'The time does not include the start of the VM, which the benchmark `wake` measures. The apps belong to a hundred tenants. When a VM starts or ends, the DNS names of its project are read and sent to its hosts: with 10,000 apps of one tenant that costs 80 ms of PostgreSQL. Until 2026-11-21 the names of all projects were read each time (208 ms among 10,000 apps, 102 ms among 100).',
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const clouds: Sized<Sleeper>[] = []
    for (const at of sizes) {
      const cloud = cleanup.use(await startBenchCloud('fake', { MOTE_IDLE_SECONDS: '10' }))
      await seedSleepers(cloud, at)
      clouds.push({ at, plane: await startSleeper(cloud) })
    }
    const series = { what: 'request to answer', unit: 'ms', along: 'sleeping apps', law: 'flat' } as const
    const grown = await growthOf(report, series, rounds, clouds, sleeper => sleeper.wake())
    report.verdict('time of a wake-up among 10,000 apps that are scaled to zero / among 100', grown, 1.3, 'B10')
  },
}
