/**
 * Tests that operators get one notification when a host is lost and one when it is back, and that an alert is open in
 * between.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { crashMatrix, faults } from '../../../test/support/crash-matrix.ts'
import { openAlerts } from '../../engine/alerts.ts'
import { createRunner } from '../../engine/runner.ts'
import { newId } from '../../lib/ids.ts'
import { until } from '../../../test/support/wait.ts'
import { createVolume, createVolumeSnapshot, deleteVolumeSnapshot, findVolumeSnapshot } from '../volumes/index.ts'
import { loseHost, removeHost, touchHosts } from '../hosts/index.ts'
import { reportLoss } from './lost-host.ts'

const world = await computeWorld({ hostTimeoutSeconds: 60 })
afterAll(async () => world[Symbol.asyncDispose]())
const { db } = world

const operator = newId()
const home = newId()
await world.rows(
  `INSERT INTO account (id, email, password_hash, role) VALUES ($1, 'operator@example.com', 'none', 'Admin') RETURNING id`,
  operator,
)
await world.rows(
  `INSERT INTO project (id, slug, name, plan, ipv6_prefix) VALUES ($1, 'home', 'home', 'unlimited', 'fd00:9::/64') RETURNING id`,
  home,
)
await world.rows(
  `INSERT INTO project_member (project_id, account_id, role) VALUES ($1, $2, 'owner') RETURNING account_id`,
  home,
  operator,
)
await world.rows(`UPDATE account SET default_project_id = $2 WHERE id = $1 RETURNING id`, operator, home)

async function lost() {
  const host = await world.addHost()
  await lose(host)
  return { id: host.id, name: host.name }
}
async function lose(host: { readonly id: string; readonly name: string }) {
  await world.rows(
    `UPDATE host SET last_seen_at = now() - interval '1 hour', suspected_at = now() - interval '1 hour' WHERE id = $1 RETURNING id`,
    host.id,
  )
  await db.tx(async tx => {
    expect(await loseHost(tx, host.id, 60)).toBe(true)
    await reportLoss(tx, host, 3)
  })
}
const dueInMinutes = async (id: string) =>
  (
    await world.rows<{ minutes: number }>(
      `SELECT (extract(epoch FROM wake_at - now()) / 60)::float8 AS minutes FROM machine WHERE id = $1`,
      id,
    )
  )[0]?.minutes
const reported = (id: string) =>
  world.rows<{ kind: string; mail: boolean }>(
    `SELECT kind, email_due_at IS NOT NULL AS mail FROM notification WHERE resource_id = $1 AND account_id = $2 ORDER BY id`,
    id,
    operator,
  )
const alerts = async (id: string) => {
  await createRunner({ db, workflows: [], log: world.deps.log }).upkeepOnce()
  return (await openAlerts(db)).filter(alert => alert.id === id).map(({ kind, phase }) => `${kind} ${phase}`)
}

const cases = crashMatrix({
  db,
  workflow: world.workflows.host,
  makeSubject: lost,
  remove: async ({ id }) => void (await db.tx(tx => removeHost(tx, id))),
  advance: async ({ id }) => void (await touchHosts(db, [id])),
  check: async ({ id }) => {
    expect((await reported(id)).map(one => one.kind)).toEqual(['host.lost', 'host.back'])
    expect(await alerts(id)).toEqual([])
  },
})

describe('a lost host', () => {
  it('is tested with each fault in each phase of its workflow', () =>
    expect(cases.length).toBe(Object.keys(world.workflows.host.phases).length * faults.length))
  it.each(cases)('recovers from a fault in its workflow ($name)', ({ run }) => run())

  it('has an open alert, and operators get an e-mail', async () => {
    const { id, name } = await lost()
    expect(await alerts(id)).toEqual(['host missing'])
    expect(await reported(id)).toEqual([{ kind: 'host.lost', mail: true }])
    await world.run('host')
    expect(await alerts(id)).toEqual(['host missing'])
    // The host is back and lost again before its workflow has run: the alert stays open.
    await touchHosts(db, [id])
    await db.tx(async tx => {
      await world.rows(`UPDATE host SET lost_at = now() WHERE id = $1 RETURNING id`, id)
      await reportLoss(tx, { id, name }, 0)
    })
    await world.run('host')
    expect(await alerts(id)).toEqual(['host missing'])
    await touchHosts(db, [id])
    await world.run('host')
    expect(await alerts(id)).toEqual([])
    expect((await reported(id)).map(one => one.kind)).toEqual(['host.lost', 'host.lost', 'host.back'])
  })

  it('keeps its alert when it is lost again while the workflow records its return', async () => {
    const { id } = await lost()
    await touchHosts(db, [id])
    const { missing } = world.workflows.host.phases
    const subject = await world.workflows.host.load(id)
    if (!subject) throw new Error('BUG: no host')
    const now = new Date()
    const next = await missing({
      subject,
      phase: 'missing',
      attempt: 0,
      enteredAt: now,
      now,
      signal: new AbortController().signal,
    })
    await world.rows(`UPDATE host SET lost_at = now() WHERE id = $1 RETURNING id`, id)
    await expect(db.tx(async tx => next.write?.(tx))).rejects.toThrow('lost again in the meantime')
    expect(await alerts(id)).toEqual(['host missing'])
  })

  it('wakes the workflows that waited for it as soon as it is back', async () => {
    // Makes the new host the only one with capacity.
    await world.rows(`UPDATE host SET cordoned = true RETURNING id`)
    const host = await world.addHost()
    const { id: volumeId } = await db.tx(tx =>
      createVolume(tx, { projectId: world.projectId, name: 'kept', sizeMib: 64 }),
    )
    const { id } = await db.tx(tx => createVolumeSnapshot(tx, volumeId, { name: 'one' }))
    await world.until(async () => (await findVolumeSnapshot(db, id))?.state === 'ready')
    await lose(host)
    await db.tx(tx => deleteVolumeSnapshot(tx, id))
    // The first run of the workflow enters its last phase; the second run executes that phase once.
    for (let look = 0; look < 2; look++) await world.run('volumeSnapshot')
    expect(await dueInMinutes(id)).toBeGreaterThan(5)
    await touchHosts(db, [host.id])
    await world.rows(`UPDATE machine SET wake_at = now() WHERE id = $1 RETURNING id`, host.id)
    const runner = createRunner({ db, workflows: Object.values(world.workflows), log: world.deps.log })
    const isReported = async () => {
      await runner.tickOnce()
      return host.storage.snapshots.get(id)?.put.want !== 'present'
    }
    await until(isReported, { what: 'the host receives the removal' })
  })
})
