/**
 * Runs every verb (an operation such as `pause` or `delete`) on a deployment in every phase: before a step, during a
 * step, and while the hosts are unreachable. The verb must take effect eventually, or be refused with 409.
 */
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { runsAll } from '../../../test/support/all-examples.ts'
import { computeWorld, type TestApp } from '../../../test/support/compute.ts'
import { can } from '../../contract/deployments.ts'
import type { AnyWorkflow } from '../../engine/workflow.ts'
import { createRunner } from '../../engine/runner.ts'
import { testLog } from '../../../test/support/log.ts'
import { ApiError } from '../http/errors.ts'
import { statusOf, type Verb } from './rules.ts'
import * as store from './store.ts'
import { apply } from './verbs.ts'

const world = await computeWorld({ idleSeconds: 0 })
afterEach(() => world.abandonAll())
afterAll(async () => world[Symbol.asyncDispose]())
const { db } = world
for (const host of [await world.addHost(), await world.addHost()]) host.behaviour.set('example/broken:1', 'crash')

interface Subject {
  readonly id: string
  readonly app: TestApp
}
const make = async (image = 'example/app:1'): Promise<Subject> => {
  const app = await world.app()
  return { app, id: (await world.deploy(app, { image })).id }
}
const releasing = async (): Promise<Subject> => {
  const app = await world.app()
  await world.rows(`UPDATE app SET release_command = '{true}' WHERE id = $1 RETURNING id`, app.id)
  return { app, id: (await world.deploy(app)).id }
}
const read = (id: string) => store.byId(db, id)
const phaseOf = async (id: string) => (await read(id))?.phase
const step = () => world.run('deployment')
const act = (id: string, verb: Verb) =>
  db.tx(async tx => {
    await store.hold(tx, id)
    const d = await store.byId(tx, id)
    if (d) await apply(tx, verb, d)
  })
/** Runs rounds of all workflows until the deployment is in the phase. Its own workflow runs last in each round. */
const stepInto = async (id: string, phase: string) => {
  for (let round = 0; (await phaseOf(id)) !== phase; round++) {
    if (round === 30) throw new Error(`not ${phase} but ${await phaseOf(id)}`)
    await world.hostsMove()
    await world.run('vm', 'snapshot')
    await step()
  }
}
const serving = async (image?: string) => {
  const subject = await make(image)
  await stepInto(subject.id, 'serving')
  return subject
}
const scale = (app: TestApp, state: string) =>
  world.rows(`UPDATE app SET scale_state = $2 WHERE id = $1 RETURNING id`, app.id, state)
const asleep = async () => {
  const subject = await serving()
  await scale(subject.app, 'idle')
  await stepInto(subject.id, 'sleeping')
  return subject
}
const replaced = async (drainSeconds: number) => {
  const subject = await serving()
  await world.rows(`UPDATE app SET drain_timeout = $2 WHERE id = $1 RETURNING id`, subject.app.id, drainSeconds)
  const next = await world.deploy(subject.app)
  await world.until(async () => (await read(next.id))?.activeDeploymentId === next.id, 30, subject.id)
  return subject
}
const over = async (how: () => Promise<Subject>, verb?: Verb) => {
  const subject = await how()
  if (verb) await act(subject.id, verb)
  await world.until(async () => (await phaseOf(subject.id)) === null)
  return subject
}

/** Functions that create a deployment, by the name of its situation: the phase, and how the phase was reached. */
const states: Readonly<Record<string, () => Promise<Subject>>> = {
  building: async () => {
    const subject = await make('')
    await world.rows(
      `INSERT INTO build (id, project_id, app_id, deployment_id, git_url, git_branch, git_commit, vcpus, memory_mib, disk_mib)
       SELECT id, project_id, app_id, id, '', '', '', 1, 1, 1 FROM deployment WHERE id = $1 RETURNING id`,
      subject.id,
    )
    return subject
  },
  releasing: () => releasing(),
  'releasing, its command running': async () => {
    const subject = await releasing()
    await step()
    await world.run('run')
    return subject
  },
  rolling: () => make(),
  'rolling, with another deployment serving': async () => {
    const { app } = await serving()
    return { app, id: (await world.deploy(app)).id }
  },
  canary: async () => {
    const { app } = await serving()
    await world.rows(
      `UPDATE app SET canary = '{"percent": 10, "seconds": 3600, "max_error_percent": 5, "min_requests": 20}' WHERE id = $1 RETURNING id`,
      app.id,
    )
    const { id } = await world.deploy(app)
    await stepInto(id, 'canary')
    return { app, id }
  },
  serving: () => serving(),
  'serving, with another rollout in progress': async () => {
    const subject = await serving()
    await world.deploy(subject.app)
    return subject
  },
  'serving, just replaced': () => replaced(3600),
  suspending: async () => {
    const subject = await serving()
    await scale(subject.app, 'idle')
    await stepInto(subject.id, 'suspending')
    return subject
  },
  sleeping: asleep,
  waking: async () => {
    const subject = await asleep()
    await scale(subject.app, 'warming_up')
    await stepInto(subject.id, 'waking')
    return subject
  },
  draining: async () => {
    const subject = await replaced(3600)
    await stepInto(subject.id, 'draining')
    return subject
  },
  'draining, its VMs being removed': async () => {
    const subject = await replaced(0)
    await stepInto(subject.id, 'draining')
    await step()
    return subject
  },
  'draining, the other deployment stopped': async () => {
    const subject = await replaced(3600)
    await stepInto(subject.id, 'draining')
    await act((await read(subject.id))?.activeDeploymentId ?? '', 'stop')
    return subject
  },
  failing: async () => {
    const subject = await make('example/broken:1')
    await stepInto(subject.id, 'failing')
    await world.rows(`UPDATE deployment SET image = 'example/app:1' WHERE id = $1 RETURNING id`, subject.id)
    return subject
  },
  'stopping, before the first step': async () => {
    const subject = await serving()
    await act(subject.id, 'stop')
    return subject
  },
  stopping: async () => {
    const subject = await serving()
    await act(subject.id, 'stop')
    await step()
    return subject
  },
  'stopping, its VMs being removed': async () => {
    const subject = await serving()
    await act(subject.id, 'stop')
    await step()
    await step()
    return subject
  },
  stopped: () => over(serving, 'stop'),
  cancelled: () => over(make, 'cancel'),
  superseded: () => over(() => replaced(0)),
  failed: async () => {
    const subject = await over(() => make('example/broken:1'))
    await world.rows(`UPDATE deployment SET image = 'example/app:1' WHERE id = $1 RETURNING id`, subject.id)
    return subject
  },
}

/** Ends the release command of a deployment in the phase `releasing`: the simulated guest cannot run it. */
const endRelease = (id: string) =>
  world.rows(
    `UPDATE run SET outcome = 'succeeded', want = 'cancelled'
     WHERE deployment_id = $1 AND outcome IS NULL AND want = 'finished' RETURNING id`,
    id,
  )

/** Ends the build of a deployment in the phase `building`, with an image. */
const endBuild = (id: string) =>
  world.rows(
    `UPDATE build SET state = 'succeeded', image = 'example/app:1', ended_at = now(), holds = false
     WHERE deployment_id = $1 AND ended_at IS NULL RETURNING id`,
    id,
  )

const isOver = async (id: string) => {
  const d = await read(id)
  return d?.outcome !== null && d?.phase === null && d.vms.length === 0 && d.activeDeploymentId !== id
}
const effects: Readonly<Record<Verb, (id: string) => Promise<boolean>>> = {
  activate: async id => {
    const d = await read(id)
    const rivals = await world.rows(
      `SELECT d.id FROM deployment d JOIN machine m ON m.kind = 'deployment' AND m.id = d.id
       WHERE d.app_id = $1 AND d.id <> $2 AND m.phase IN ('building', 'rolling', 'canary', 'serving')`,
      d?.appId ?? id,
      id,
    )
    const isUp = d?.vms.some(vm => vm.healthy && vm.want === 'running') === true
    const serves = (d?.phase === 'serving' && isUp) || d?.phase === 'sleeping'
    return serves && d.activeDeploymentId === id && d.want === 'running' && rivals.length === 0
  },
  stop: isOver,
  cancel: isOver,
  pause: async id => {
    const d = await read(id)
    // While another deployment of the app is active, it is enough that the pause was recorded.
    const isReplaced = d !== undefined && d.activeDeploymentId !== null && d.activeDeploymentId !== id
    return d !== undefined && d.want === 'paused' && (statusOf(d) === 'paused' || isReplaced)
  },
  resume: async id => {
    const d = await read(id)
    return d !== undefined && d.want === 'running' && d.outcome === null && d.vms.every(vm => vm.want !== 'paused')
  },
  delete: async id => (await read(id)) === undefined,
}
/** Applies the verb between the load and the commit of a step of the deployment's workflow. */
async function during(id: string, verb: Verb): Promise<unknown> {
  const deployment: AnyWorkflow = world.workflows.deployment
  let refused: unknown
  let acted = false
  const interrupted: AnyWorkflow = {
    ...deployment,
    async load(own: string) {
      const observed: unknown = await deployment.load(own)
      if (own !== id || acted) return observed
      acted = true
      await act(id, verb).catch((error: unknown) => {
        refused = error
      })
      return observed
    },
  }
  await world.rows(`UPDATE machine SET wake_at = now() WHERE lease IS NULL RETURNING id`)
  await createRunner({ db, workflows: [interrupted], log: testLog(), batch: 100_000 }).tickOnce()
  if (!acted) await act(id, verb).catch((error: unknown) => (refused = error))
  return refused
}
const before = (id: string, verb: Verb): Promise<unknown> =>
  act(id, verb).then(
    () => undefined,
    (error: unknown) => error,
  )

const verbs = Object.keys(can).filter((verb): verb is Verb => verb in can)
/** Makes the hosts unreachable before the verb is applied, and reachable again a few rounds later. */
async function whileAway(id: string, verb: Verb): Promise<unknown> {
  for (const host of world.hosts) host.reachable = false
  try {
    const refused = await before(id, verb)
    for (let round = 0; round < 5; round++) {
      await world.hostsMove()
      await world.run('vm', 'snapshot', 'deployment', 'app')
    }
    return refused
  } finally {
    for (const host of world.hosts) host.reachable = true
  }
}
const moments = { 'before a step': before, 'during a step': during, 'while the hosts are unreachable': whileAway }

/** The state in which `npm test` tries every moment; in the others, it only tries the moment before a step. */
const busiest = 'rolling, with another deployment serving'
/** The states in `npm test`: one of each phase, and one of an ended deployment. */
const oneOfEachPhase: readonly string[] = [
  ...['building', 'releasing', busiest, 'canary', 'serving', 'suspending', 'sleeping', 'waking', 'draining'],
  ...['failing', 'stopping', 'stopped'],
]
const testedStates = Object.entries(states).filter(([state]) => runsAll || oneOfEachPhase.includes(state))
const momentsOf = (state: string) =>
  Object.entries(moments).filter(([when]) => runsAll || when === 'before a step' || state === busiest)

describe.each(testedStates)('a deployment in the phase %s', (state, bring) => {
  it.each(momentsOf(state).flatMap(([when, how]) => verbs.map(verb => ({ when, how, verb }))))(
    'takes effect or is refused: $verb $when',
    async ({ how, verb }) => {
      const { id } = await bring()
      await using undo = new AsyncDisposableStack()
      undo.defer(async () => void (await endBuild(id)))
      const refused = await how(id, verb)
      if (refused !== undefined) {
        expect(refused).toBeInstanceOf(ApiError)
        expect(refused).toMatchObject({ code: 'invalid_state' })
        return
      }
      const hasEffect = async () => {
        await endBuild(id)
        await endRelease(id)
        return effects[verb](id)
      }
      await world.until(hasEffect, 40)
      // The verb's effect must last: no workflow in progress may undo it.
      for (let round = 0; round < 3; round++) {
        await world.hostsMove()
        await world.run('vm', 'deployment', 'app')
      }
      expect(await effects[verb](id)).toBe(true)
    },
  )
})

it('every phase of the deployment workflow has a state that is tested', () => {
  const named = Object.keys(states).map(state => state.split(',')[0] ?? '')
  expect(named).toEqual(expect.arrayContaining(Object.keys(world.workflows.deployment.phases)))
})
