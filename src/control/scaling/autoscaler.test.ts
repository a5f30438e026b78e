/** Tests that the autoscaler sweep reads the load that hosts report and writes the desired number of replicas. */
import { afterAll, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { createLiveStats } from '../hosts/index.ts'
import { autoscaler } from './autoscaler.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const host = await world.addHost()

/**
 * Runs the sweep every five seconds of a simulated clock. The total load of the app equals that of `load` fully used
 * VMs.
 */
async function live(appId: string, deploymentId: string, load: number, seconds: number, from: { ms: number }) {
  const clock = { now: () => new Date(from.ms) }
  const stats = createLiveStats(clock)
  const sweep = autoscaler({ db: world.db, live: stats, config: { requestsPerReplica: 0 } })
  const endMs = from.ms + seconds * 1000
  for (; from.ms < endMs; from.ms += 5000) {
    const vms = await world.rows<{ id: string }>(`SELECT id FROM vm WHERE deployment_id = $1 AND healthy`, deploymentId)
    const cpuUsage = Math.min(100, (load / vms.length) * 100)
    const heartbeat = {
      ...host.heartbeat(),
      stats: vms.map(({ id }) => ({ vmId: id, atMs: from.ms, cpuUsage, ramUsedBytes: 0, rxBytes: 0, txBytes: 0 })),
    }
    stats.record(heartbeat, from.ms)
    await sweep.run({ now: clock.now(), signal: new AbortController().signal })
    await world.until(async () => {
      const good = await world.rows(
        `SELECT id FROM vm WHERE deployment_id = $1 AND healthy AND want = 'running'`,
        deploymentId,
      )
      return good.length === (await desired(appId))
    })
    // Sets the time of the last scaling to that of the simulated clock, because the database uses the real time.
    await world.rows(
      `UPDATE app SET scaled_at = to_timestamp($2) WHERE id = $1 AND scaled_at > now() - interval '1 minute' RETURNING id`,
      appId,
      from.ms / 1000,
    )
  }
}
const desired = async (appId: string) =>
  (await world.rows<{ n: number }>(`SELECT desired_replicas AS n FROM app WHERE id = $1`, appId))[0]?.n ?? 0

it("the autoscaler adds replicas with rising load up to the app's maximum, and removes them with falling load", async () => {
  const app = await world.app()
  await world.rows(
    `UPDATE app SET autoscaling_enabled = true, min_replicas = 1, max_replicas = 4 WHERE id = $1 RETURNING id`,
    app.id,
  )
  const { id } = await world.deploy(app)
  await world.until(
    async () => (await world.rows(`SELECT id FROM app WHERE active_deployment_id = $1`, id)).length === 1,
  )
  // A time of the last scaling far in the past, so that no scaling counts as recent.
  const at = { ms: 1_000_000_000_000 }
  await live(app.id, id, 3, 200, at)
  expect(await desired(app.id)).toBe(4)
  await live(app.id, id, 0.2, 900, at)
  expect(await desired(app.id)).toBe(1)
}, 120_000)

it("the autoscaler does not add replicas beyond the limits of the project's plan", async () => {
  await world.rows(`UPDATE project SET plan = 'free' RETURNING id`)
  const app = await world.app()
  await world.rows(
    `UPDATE app SET autoscaling_enabled = true, min_replicas = 1, max_replicas = 9 WHERE id = $1 RETURNING id`,
    app.id,
  )
  const { id } = await world.deploy(app)
  await world.until(
    async () => (await world.rows(`SELECT id FROM app WHERE active_deployment_id = $1`, id)).length === 1,
  )
  await live(app.id, id, 9, 300, { ms: 1_000_000_000_000 })
  // The plan allows four vCPUs in total, one of which the other app uses.
  expect(await desired(app.id)).toBe(3)
}, 120_000)
