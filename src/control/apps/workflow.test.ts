/** Crash matrix of the app workflow: crashes the workflow before and after each phase while it deletes an app. */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { crashMatrix, faults } from '../../../test/support/crash-matrix.ts'
import { startDeletingApp } from './end.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db } = world
const host = await world.addHost()

const cases = crashMatrix({
  db,
  workflow: world.workflows.app,
  makeSubject: async () => {
    const app = await world.app()
    await world.deploy(app)
    const { id } = await world.deploy(app)
    await world.until(
      async () => (await world.rows(`SELECT id FROM app WHERE active_deployment_id = $1`, id)).length === 1,
    )
    await db.tx(tx => startDeletingApp(tx, app.id))
    return app
  },
  remove: app => db.tx(tx => startDeletingApp(tx, app.id)),
  advance: async () => {
    await world.run('deployment', 'vm')
    await world.hostsMove()
  },
  check: async ({ id }) => {
    expect(host.vms.size).toBe(0)
    for (const table of ['vm', 'deployment'])
      expect(await world.rows(`SELECT id FROM ${table} WHERE app_id = $1`, id)).toEqual([])
    expect(await world.rows(`SELECT id FROM app WHERE id = $1`, id)).toEqual([])
    expect(await world.rows(`SELECT state FROM route WHERE app_id = $1`, id)).toEqual([{ state: 'gone' }])
    expect(await world.used()).toEqual({ vcpus: 0, memoryMib: 0, diskMib: 0 })
  },
})

describe('crash matrix of the app workflow', () => {
  it('tests every phase with every fault', () =>
    expect(cases.length).toBe(Object.keys(world.workflows.app.phases).length * faults.length))
  it.each(cases)('$name', ({ run }) => run())
})
