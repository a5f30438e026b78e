/**
 * Crash matrix of the deployment workflow: crashes the workflow before and after each phase, for each way a deployment
 * can end.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld, type TestApp } from '../../../test/support/compute.ts'
import { type CrashCase, crashMatrix, everySecond, faults } from '../../../test/support/crash-matrix.ts'
import { wakeApp } from '../scaling/index.ts'
import { removeDeployment, takeDown } from './end.ts'
import * as store from './store.ts'

const world = await computeWorld({ idleSeconds: 0 })
afterAll(async () => world[Symbol.asyncDispose]())
const { db } = world
const hosts = [await world.addHost(), await world.addHost()]
for (const host of hosts) {
  host.behaviour.set('example/broken:1', 'crash')
  host.behaviour.set('example/batch:1', 'finish')
}

interface Subject {
  readonly id: string
  readonly app: TestApp
  rounds: number
}

const subject = async (image = 'example/app:1', replicas = 2): Promise<Subject> => {
  const app = await world.app({ replicas })
  const { id } = await world.deploy(app, { image, replicas })
  return { id, app, rounds: 0 }
}
const remove = ({ id }: { id: string }) => db.tx(tx => removeDeployment(tx, id))
const stop = (id: string) =>
  db.tx(async tx => {
    await store.desired(tx, id, 'stopped')
    await takeDown(tx, id)
  })
const move = async () => {
  await world.run('vm', 'snapshot')
  await world.hostsMove()
}
const outcomeOf = async (id: string) =>
  (await world.rows<{ outcome: string | null }>(`SELECT outcome FROM deployment WHERE id = $1`, id))[0]?.outcome
const all = (skip: readonly string[]) =>
  Object.fromEntries(['building', 'releasing', 'canary', ...skip].map(phase => [phase, 'covered by another way']))

/** Expects that the deployment has nothing left on any host, no reserved capacity, and no reference from its app. */
const check =
  (outcomes: readonly (string | undefined)[]) =>
  async ({ id, app }: Subject) => {
    await world.until(async () => (await world.rows(`SELECT id FROM vm WHERE deployment_id = $1`, id)).length === 0)
    expect(hosts.flatMap(host => [...host.vms.values()]).filter(vm => vm.desired.spec.deploymentId === id)).toEqual([])
    expect(outcomes).toContain((await outcomeOf(id)) ?? undefined)
    const [row] = await world.rows<{ active: string | null }>(
      `SELECT active_deployment_id AS active FROM app WHERE id = $1`,
      app.id,
    )
    expect(row?.active).not.toBe(id)
    await world.deploymentsEnd(app)
    expect(await world.used()).toEqual({ vcpus: 0, memoryMib: 0, diskMib: 0 })
  }

const asleep = ['suspending', 'sleeping', 'waking'] as const
const ways: Record<string, CrashCase[]> = {
  stopped: crashMatrix<Subject>({
    db,
    workflow: world.workflows.deployment,
    remove,
    unreachable: all(['draining', 'failing', ...asleep]),
    makeSubject: () => subject(),
    advance: async (s, phase) => {
      await move()
      if (phase === 'serving' && ++s.rounds > 4) await stop(s.id)
    },
    check: check(['stopped', 'cancelled', undefined]),
  }),
  superseded: crashMatrix<Subject>({
    db,
    workflow: world.workflows.deployment,
    remove,
    unreachable: all(['rolling', 'serving', 'failing', 'stopping', ...asleep]),
    makeSubject: () => subject(),
    advance: async (s, phase) => {
      await move()
      if (phase !== 'serving' || s.rounds++ > 0) return
      const next = await world.deploy(s.app, { replicas: 2 })
      await world.until(async () => (await store.byId(db, next.id))?.activeDeploymentId === next.id, 60, s.id)
    },
    check: check(['superseded', undefined]),
  }),
  'put to sleep and woken': crashMatrix<Subject>({
    db,
    workflow: world.workflows.deployment,
    remove,
    unreachable: all(['rolling', 'serving', 'draining', 'failing', 'stopping']),
    makeSubject: () => subject(),
    advance: async (s, phase) => {
      if (phase === 'serving' && s.rounds++ === 0) {
        await world.rows(
          `UPDATE app SET scale_state = 'idle' WHERE id = $1 AND scale_state = 'active' RETURNING id`,
          s.app.id,
        )
      } else if (phase === 'sleeping') {
        const live = await world.rows(`SELECT id FROM vm WHERE deployment_id = $1 AND want <> 'absent'`, s.id)
        expect(live).toEqual([])
        await db.tx(tx => wakeApp(tx, s.app.id))
      } else if (phase === 'serving' && s.rounds > 4) await stop(s.id)
      await move()
    },
    check: async (s, at) => {
      await check(['stopped', 'cancelled', undefined])(s)
      await world.until(
        async () => (await world.rows(`SELECT id FROM vm_snapshot WHERE deployment_id = $1`, s.id)).length === 0,
      )
      expect(
        hosts.reduce((sum, host) => sum + host.snapshots.size, 0),
        at.phase,
      ).toBe(0)
    },
  }),
  built: crashMatrix<Subject>({
    db,
    workflow: world.workflows.deployment,
    remove,
    unreachable: Object.fromEntries(
      Object.keys(world.workflows.deployment.phases).flatMap(phase =>
        phase === 'building' ? [] : [[phase, 'covered by another way']],
      ),
    ),
    makeSubject: async () => {
      const made = await subject('', 2)
      await world.rows(
        `INSERT INTO build (id, project_id, app_id, deployment_id, git_url, git_branch, git_commit, vcpus, memory_mib, disk_mib)
         SELECT id, project_id, app_id, id, '', '', '', 1, 1, 1 FROM deployment WHERE id = $1`,
        made.id,
      )
      return made
    },
    advance: async (s, phase) => {
      // The build always ends with an image, as builds do even if their deployment no longer waits for them.
      await world.rows(
        `UPDATE build SET state = 'succeeded', image = 'example/app:1', ended_at = now() WHERE deployment_id = $1`,
        s.id,
      )
      await move()
      if (phase === 'serving' && ++s.rounds > 2) await stop(s.id)
    },
    check: check(['stopped', 'cancelled', undefined]),
  }),
  released: crashMatrix<Subject>({
    db,
    workflow: world.workflows.deployment,
    remove,
    unreachable: Object.fromEntries(
      Object.keys(world.workflows.deployment.phases).flatMap(phase =>
        phase === 'releasing' ? [] : [[phase, 'covered by another way']],
      ),
    ),
    makeSubject: async () => {
      const app = await world.app({ replicas: 2 })
      await world.rows(`UPDATE app SET release_command = '{true}' WHERE id = $1 RETURNING id`, app.id)
      const { id } = await world.deploy(app, { replicas: 2 })
      return { id, app, rounds: 0 }
    },
    advance: async (s, phase) => {
      await world.run('run')
      await move()
      // The success of the release command is written to the database, because the program of a simulated guest cannot
      // exit with 0.
      await world.rows(
        `UPDATE run SET outcome = 'succeeded' WHERE deployment_id = $1 AND outcome IS NULL AND started_at IS NOT NULL RETURNING id`,
        s.id,
      )
      await world.rows(
        `UPDATE run SET want = 'cancelled' WHERE deployment_id = $1 AND outcome IS NOT NULL RETURNING id`,
        s.id,
      )
      if (phase === 'serving' && ++s.rounds > 2) await stop(s.id)
    },
    check: async s => {
      await check(['stopped', 'cancelled', undefined])(s)
      expect((await world.rows(`SELECT id FROM run WHERE deployment_id = $1`, s.id)).length).toBeLessThan(2)
    },
  }),
  'finished with its program': crashMatrix<Subject>({
    db,
    workflow: world.workflows.deployment,
    remove,
    unreachable: all(['draining', 'stopping', ...asleep]),
    makeSubject: async () => {
      const app = await world.app({ replicas: 2 })
      await world.rows(
        `UPDATE app SET kind = 'worker', restart = '{"policy": "on-failure", "max_restarts": null}' WHERE id = $1 RETURNING id`,
        app.id,
      )
      const { id } = await world.deploy(app, { image: 'example/batch:1', replicas: 2 })
      return { id, app, rounds: 0 }
    },
    advance: move,
    check: check(['stopped', 'cancelled', undefined]),
  }),
  'tried as a canary': crashMatrix<Subject>({
    db,
    workflow: world.workflows.deployment,
    remove,
    unreachable: Object.fromEntries(
      Object.keys(world.workflows.deployment.phases).flatMap(phase =>
        phase === 'canary' ? [] : [[phase, 'covered by another way']],
      ),
    ),
    makeSubject: async () => {
      const { id: before, app } = await subject()
      await world.until(async () => (await store.byId(db, before))?.phase === 'serving')
      await world.rows(
        `UPDATE app SET canary = '{"percent": 10, "seconds": 60, "max_error_percent": 5, "min_requests": 20}' WHERE id = $1 RETURNING id`,
        app.id,
      )
      const { id } = await world.deploy(app, { replicas: 2 })
      return { id, app, rounds: 0 }
    },
    advance: async (s, phase) => {
      await move()
      if (phase === 'canary' && ++s.rounds > 1)
        await world.rows(
          `UPDATE deployment SET canary_started_at = canary_started_at - interval '1 hour' WHERE id = $1 RETURNING id`,
          s.id,
        )
      if (phase === 'serving' && ++s.rounds > 4) await stop(s.id)
    },
    check: check(['stopped', 'cancelled', undefined]),
  }),
  failed: crashMatrix<Subject>({
    db,
    workflow: world.workflows.deployment,
    remove,
    unreachable: all(['serving', 'draining', 'rolling', 'stopping', ...asleep]),
    makeSubject: () => subject('example/broken:1'),
    advance: move,
    check: check(['failed', undefined]),
  }),
}

describe('crash matrix of the deployment workflow', () => {
  it('tests every phase with every fault', () => {
    const named = new Set(Object.values(ways).flatMap(cases => cases.map(({ name }) => name)))
    expect(named.size).toBe(Object.keys(world.workflows.deployment.phases).length * faults.length)
  })
  for (const [way, cases] of Object.entries(ways))
    describe(`for a deployment that is ${way}`, () => {
      // Only partly in `npm test`: the matrices interrupt the same phases, and each phase gets two or three of five faults.
      it.each(everySecond(cases))('$name', ({ run }) => run())
    })
})
