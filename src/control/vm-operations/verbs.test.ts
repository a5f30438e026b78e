/**
 * Runs every operation on VM snapshots in every state of the snapshot: before a step of its workflow, during one, and
 * while the host is unreachable. The operation takes effect eventually, or is refused with a reason.
 */
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { computeWorld, type TestApp } from '../../../test/support/compute.ts'
import { testLog } from '../../../test/support/log.ts'
import { removeDeployment } from '../deployments/index.ts'
import { createLiveStats } from '../hosts/index.ts'
import { ApiError } from '../http/errors.ts'
import type { AnyWorkflow } from '../../engine/workflow.ts'
import { createRunner } from '../../engine/runner.ts'
import { listSnapshots, setVmWant, type vmOperations } from '../vms/index.ts'
import * as vms from '../vms/store.ts'
import { runtimeFeature } from './index.ts'
import { runsAll } from '../../../test/support/all-examples.ts'

const world = await computeWorld()
afterEach(() => world.abandonAll())
afterAll(async () => world[Symbol.asyncDispose]())
const { db, deps, projectId } = world
const host = await world.addHost({ vcpus: 1000, memoryMib: 1_000_000 })
const { handlers } = runtimeFeature({ ...deps, live: createLiveStats(deps.clock) })
type SnapshotVerb = 'createVmSnapshot' | 'restoreVmSnapshot' | 'forkVmSnapshot' | 'deleteVmSnapshot'

interface Subject {
  readonly app: TestApp
  readonly deploymentId: string
  readonly jobId: string
  readonly vmId: string
  /** Content of the guest's memory when the snapshot `one` was taken. */
  readonly memory: string
}

/** Calls the handler of a write operation as the HTTP server does. */
async function ask(operation: SnapshotVerb & keyof typeof vmOperations, s: Subject, body: object = {}) {
  const work = await Object(handlers[operation]).write({
    project: { id: projectId, slug: 'test', name: 'test', memberRole: 'owner' },
    params: { app_name: s.app.name, job_id: s.jobId, snapshot_name: 'one' },
    body,
    caller: {},
    audit: () => undefined,
  })
  return db.tx(tx => work(tx))
}

const vmOf = (s: Subject) => vms.byId(db, s.vmId)
const isHealthy = async (vmId: string) => (await vms.byId(db, vmId))?.healthy === true
const named = async (s: Subject, name: string) =>
  (await listSnapshots(db, s.deploymentId)).find(one => one.name === name)

const running = async (): Promise<Subject> => {
  const app = await world.app()
  const { id: deploymentId, jobId, vmIds } = await world.deploy(app)
  const [vmId = ''] = vmIds
  await world.until(() => isHealthy(vmId))
  return { app, deploymentId, jobId, vmId, memory: host.vms.get(vmId)?.memory ?? '' }
}
const creating = async () => {
  const s = await running()
  await ask('createVmSnapshot', s, { snapshot_name: 'one' })
  return s
}
/** Creates a VM and a complete snapshot of it, after which the guest continues. */
const ready = async () => {
  const s = await creating()
  await world.until(async () => (await named(s, 'one'))?.state === 'ready')
  const vm = host.vms.get(s.vmId)
  if (vm) vm.memory = 'the guest continued'
  return s
}
const after = (act: (s: Subject) => Promise<unknown>) => async () => {
  const s = await ready()
  await act(s)
  return s
}
const fork = (s: Subject) => ask('forkVmSnapshot', s, { app_name: `fork-of-${s.app.name}` })

const states: Readonly<Record<string, () => Promise<Subject>>> = {
  creating,
  'creating, after its host received it': async () => {
    const s = await creating()
    await world.run('snapshot')
    return s
  },
  keeping: ready,
  'keeping, after it failed': async () => {
    const s = await creating()
    await world.rows(
      `UPDATE vm_snapshot SET state = 'failed', error = 'no space' WHERE deployment_id = $1 RETURNING id`,
      s.deploymentId,
    )
    await world.run('snapshot')
    return s
  },
  'keeping, its VM to be restored from it': after(s => ask('restoreVmSnapshot', s)),
  'keeping, its VM being restored from it': after(async s => {
    await ask('restoreVmSnapshot', s)
    await world.run('vm')
  }),
  'keeping, after its VM was restored from it': after(async s => {
    await ask('restoreVmSnapshot', s)
    await world.until(async () => host.vms.get(s.vmId)?.memory === s.memory && (await isHealthy(s.vmId)))
  }),
  'keeping, before a fork was started': after(fork),
  'keeping, with a fork starting from it': after(async s => {
    await fork(s)
    await world.run('vm')
    await world.run('vm')
  }),
  'keeping, its VM being removed': after(s => db.tx(tx => setVmWant(tx, s.vmId, 'absent'))),
  'removing, before the first step': after(s => ask('deleteVmSnapshot', s)),
  removing: after(async s => {
    await ask('deleteVmSnapshot', s)
    await world.run('snapshot')
  }),
}

interface Verb {
  readonly operation: SnapshotVerb
  readonly body: (s: Subject) => object
  readonly hasEffect: (s: Subject) => Promise<boolean>
}
const wentBack = async (s: Subject) => {
  const vm = await vmOf(s)
  return vm?.healthy === true && vm.observedGeneration === vm.generation && host.vms.get(s.vmId)?.memory === s.memory
}
const forksOf = (s: Subject) =>
  world.rows<{ id: string; healthy: boolean }>(
    `SELECT v.id, v.healthy FROM vm v JOIN app a ON a.id = v.app_id WHERE a.name LIKE $1 AND v.want = 'running'`,
    `%-of-${s.app.name}`,
  )
const verbs: Readonly<Record<string, Verb>> = {
  'take another snapshot': {
    operation: 'createVmSnapshot',
    body: () => ({ snapshot_name: 'two' }),
    // The host may refuse this snapshot with a reason, because the VM is stopped while it is being restored.
    hasEffect: async s => {
      const two = await named(s, 'two')
      return two?.state === 'ready' || (two?.state === 'failed' && two.error !== null)
    },
  },
  restore: { operation: 'restoreVmSnapshot', body: () => ({}), hasEffect: wentBack },
  fork: {
    operation: 'forkVmSnapshot',
    body: s => ({ app_name: `copy-of-${s.app.name}` }),
    hasEffect: async s => {
      const forks = await forksOf(s)
      return forks.length > 0 && forks.every(vm => vm.healthy && host.vms.get(vm.id)?.memory === s.memory)
    },
  },
  delete: {
    operation: 'deleteVmSnapshot',
    body: () => ({}),
    hasEffect: async s => (await named(s, 'one')) === undefined,
  },
}

type Outcome = 'accepted' | { readonly refused: unknown }
const apply = ({ operation, body }: Verb, s: Subject): Promise<Outcome> =>
  ask(operation, s, body(s)).then(
    () => 'accepted' as const,
    (refused: unknown) => ({ refused }),
  )

/** Runs the operation after a step of the snapshot's workflow has loaded the snapshot, and before the step commits. */
async function during(verb: Verb, s: Subject): Promise<Outcome> {
  const workflow: AnyWorkflow = world.workflows.snapshot
  const one = await world.rows<{ id: string }>(`SELECT id FROM vm_snapshot WHERE deployment_id = $1`, s.deploymentId)
  let outcome: Outcome | undefined
  const interrupted: AnyWorkflow = {
    ...workflow,
    async load(id: string) {
      const observed: unknown = await workflow.load(id)
      if (one.some(snapshot => snapshot.id === id)) outcome ??= await apply(verb, s)
      return observed
    },
  }
  await world.rows(`UPDATE machine SET wake_at = now() WHERE lease IS NULL RETURNING id`)
  await createRunner({ db, workflows: [interrupted], log: testLog(), batch: 100_000 }).tickOnce()
  return outcome ?? apply(verb, s)
}

/** Runs the operation while the host is unreachable; the host comes back a few rounds later. */
async function whileAway(verb: Verb, s: Subject): Promise<Outcome> {
  host.reachable = false
  try {
    const outcome = await apply(verb, s)
    for (let round = 0; round < 5; round++) {
      await world.hostsMove()
      await world.run('vm', 'snapshot', 'deployment', 'app')
    }
    return outcome
  } finally {
    host.reachable = true
  }
}
const moments = { 'before a step': apply, 'during a step': during, 'while its host is unreachable': whileAway }
const reasons = ['not_found', 'operation_in_progress', 'invalid_state', 'name_taken']

/** The state in which `npm test` tries every moment; in the others, it only tries the moment before a step. */
const busiest = 'keeping, with a fork starting from it'
const momentsOf = (state: string) =>
  Object.entries(moments).filter(([when]) => runsAll || when === 'before a step' || state === busiest)

describe.each(Object.entries(states))('an operation on a snapshot in the state "%s"', (state, bring) => {
  it.each(
    momentsOf(state).flatMap(([when, how]) => Object.entries(verbs).map(([what, verb]) => ({ when, how, what, verb }))),
  )('takes effect or is refused with a reason: $what, $when', async ({ how, verb }) => {
    const s = await bring()
    const outcome = await how(verb, s)
    if (outcome === 'accepted') await world.until(() => verb.hasEffect(s), 40)
    else {
      expect(outcome.refused).toBeInstanceOf(ApiError)
      expect(reasons).toContain(Object(outcome.refused).code)
    }
    // An operation that was accepted while the snapshot was brought into this state must still take effect.
    if (state.endsWith('restored from it') && verb.operation !== 'restoreVmSnapshot')
      await world.until(() => wentBack(s), 40)
    if (/a fork/.test(state)) await world.until(() => everyForkRuns(s), 40)
    await db.tx(tx => removeDeployment(tx, s.deploymentId))
  })
})

const everyForkRuns = async (s: Subject) => {
  const forks = await forksOf(s)
  return forks.length > 0 && forks.every(vm => vm.healthy && host.vms.get(vm.id)?.memory === s.memory)
}

it('the tested states include every phase of the snapshot workflow', () => {
  const phases = Object.keys(states).map(state => state.split(',')[0] ?? '')
  expect(phases).toEqual(expect.arrayContaining(Object.keys(world.workflows.snapshot.phases)))
})
