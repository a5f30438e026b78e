import { afterAll, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { notifyFailed } from './notices.ts'
import * as store from './store.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const host = await world.addHost()
host.behaviour.set('example/broken:1', 'crash')

const entriesOf = (deploymentId: string) =>
  world.rows<{ action: string; details: Record<string, unknown> }>(
    `SELECT action, details FROM audit_log WHERE resource_id = $1 ORDER BY seq`,
    deploymentId,
  )
const settle = async (isOver: () => Promise<boolean>) => {
  await world.until(async () => {
    await world.hostsMove()
    return isOver()
  })
}

it('a deployment that becomes live and one that fails each add one activity entry to the project', async () => {
  const app = await world.app()
  const good = await world.deploy(app, { image: 'example/app:1' })
  await settle(async () => (await entriesOf(good.id)).length > 0)
  const bad = await world.deploy(app, { image: 'example/broken:1' })
  await settle(async () => (await entriesOf(bad.id)).length > 0)
  expect(await entriesOf(good.id)).toEqual([
    { action: 'deployment.live', details: { app: app.name, version: 'example/app:1' } },
  ])
  expect(await entriesOf(bad.id)).toEqual([
    { action: 'deployment.failed', details: { app: app.name, reason: expect.stringMatching(/\w/) } },
  ])
})

it('the activity entry of a failed deployment does not contain output of the app', async () => {
  const app = await world.app()
  const { id } = await world.deploy(app)
  const d = await store.byId(world.db, id)
  if (!d) throw new Error('the deployment is missing')
  const reason = 'The program exited with code 1. Last lines:\npassword=hunter2'
  await world.db.tx(tx => notifyFailed(tx, d, reason))
  expect((await entriesOf(id)).map(one => one.details)).toEqual([
    { app: d.appName, reason: 'The program exited with code 1.' },
  ])
})
