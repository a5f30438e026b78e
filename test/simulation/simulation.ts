/**
 * One life: real machines, sweeps and statements of the control plane on a real database; simulated hosts; a seed that
 * decides what happens next. Time is virtual: nothing waits, and hours pass by moving every stored instant back.
 */
import type { VmObserved } from '../../src/contract/agent.ts'
import { deadHosts, reconcileHost } from '../../src/control/fleet/index.ts'
import { touchHosts } from '../../src/control/hosts/index.ts'
import { recordObserved, recordSnapshot } from '../../src/control/vms/index.ts'
import { recordVolume, recordVolumeSnapshot } from '../../src/control/volumes/index.ts'
import type { AnyWorkflow, Step } from '../../src/engine/workflow.ts'
import { type ClaimedRow, engineStatements } from '../../src/engine/statements.ts'
import { runStep } from '../../src/engine/step.ts'
import { statement } from '../../src/db/db.ts'
import { newId } from '../../src/lib/ids.ts'
import { type ComputeWorld, computeWorld, type TestApp } from '../support/compute.ts'
import type { SimHost } from '../support/sim-host.ts'
import { type Random, random } from './random.ts'
import type { Stage } from './stage.ts'

export interface WorkflowNow {
  readonly kind: string
  readonly id: string
  readonly phase: string
  readonly error: string | null
}

/** Every stored instant that a decision looks at. */
const instants: Readonly<Record<string, readonly string[]>> = {
  machine: ['entered_at', 'deadline'],
  host: ['last_seen_at', 'suspected_at'],
  deployment: ['replaced_at', 'started_at', 'scheduled_at', 'stopped_at'],
  app: ['last_request_at', 'scale_changed_at'],
  vm: ['placed_at'],
}
const sql = {
  workflows: statement<WorkflowNow>(
    'simulation.machines',
    'SELECT kind, id, phase, last_error AS error FROM machine ORDER BY id, kind',
  ),
  // What a runner does with the one machine that the seed has chosen.
  claim: statement<ClaimedRow>(
    'simulation.claim',
    `UPDATE machine SET lease = $3, lease_until = now() + interval '1 hour', runner = $3 WHERE kind = $1 AND id = $2
     RETURNING kind, id, phase, lease, pokes, attempt, entered_at, now() AS now`,
  ),
  pass: statement(
    'simulation.pass',
    `WITH ${Object.entries(instants)
      .map(([table, columns]) => {
        const changes = columns.map(column => `${column} = ${column} - make_interval(secs => $1)`)
        return `p_${table} AS (UPDATE ${table} SET ${changes.join(', ')})`
      })
      .join(', ')}, pokes AS (DELETE FROM machine_poke) SELECT 1`,
  ),
}

/** Phases in which a machine waits until somebody wants something else. */
const resting: ReadonlySet<string> = new Set(['steady', 'serving', 'keeping', 'missing'])
/** Nothing here hangs; a machine may be busy, and a step that was given up on would not replay. */
const stepTimeoutMs = 120_000

interface Heard {
  readonly hostId: string
  readonly observed: VmObserved
}

/** `twice`: when it has decided, another runner makes the step, and it finds its lease gone. */
type Fate = 'fine' | 'dies-before' | 'dies-after' | 'twice'

export interface Simulation extends AsyncDisposable {
  readonly world: ComputeWorld
  readonly random: Random
  readonly apps: (TestApp & { readonly isAlone: boolean })[]
  /** What was done, oldest first. */
  readonly history: string[]
  /** Share of messages and steps that go wrong. */
  faults: number
  /** True when something that an invariant could see was written since the last question. */
  changed(): boolean
  /** What there was when somebody looked last; the invariants look after every step. */
  workflowsNow: readonly WorkflowNow[]
  /** One machine makes one step, perhaps interrupted. */
  step(): Promise<void>
  /** A host moves, and what it says arrives, or not, or twice, or late. */
  hostMoves(host: SimHost): Promise<void>
  /** A full beat arrives. */
  heartbeat(host: SimHost): Promise<void>
  passTime(seconds: number): Promise<void>
  sweep(): Promise<void>
  workflows(): Promise<WorkflowNow[]>
}

/** @param visited gets every phase that was run */
export async function simulation(
  seed: number,
  stage: Omit<Stage, typeof Symbol.asyncDispose>,
  visited = new Set<string>(),
): Promise<Simulation> {
  const dice = random(seed)
  await stage.clear()
  const settings = { idleSeconds: 0, hostTimeoutSeconds: 60 }
  const world = await computeWorld(settings, { db: stage.db, drop: async () => undefined })
  const state = { faults: 0 }
  const heard: Heard[] = []
  /** What each host said last of each VM, and was heard. */
  const known = new Map<string, string>()
  const passes = () => !dice.chance(state.faults)
  // One is small: it is full most of the time. From it and to it VMs that have volumes are stopped to move.
  for (const vcpus of [4, 12, 12]) await world.addHost({ vcpus, passes, movesVolumes: vcpus > 4 })
  let fate: Fate = 'fine'
  let under: Pick<WorkflowNow, 'kind' | 'id'> | undefined
  /** Somebody else, to whom the lease has gone, makes the same step from beginning to end. */
  const overtake = async () => {
    fate = 'fine'
    if (under) await run(under)
  }
  const workflows = new Map(
    Object.values<AnyWorkflow>(world.workflows).map(one => [one.kind, mortal(one, () => fate, overtake)] as const),
  )
  const limits = { stepTimeoutMs, giveUpMs: stepTimeoutMs, stopping: new AbortController().signal, random: () => 0 }
  const listen = async ({ hostId, observed }: Heard) =>
    void (await world.db.tx(tx => recordObserved(tx, hostId, observed)))
  const run = async (chosen: Pick<WorkflowNow, 'kind' | 'id'>) => {
    const { kind, id } = chosen
    under = chosen
    const workflow = workflows.get(kind)
    if (!workflow) throw new Error(`BUG: no machine of kind ${kind}`)
    const claimed = world.db.maybe(sql.claim, [kind, id, newId()])
    // In the same trip, and behind it on the same connection: it is what the runner would load next.
    const subject = workflow.load(id)
    subject.catch(() => undefined)
    const row = await claimed
    if (!row) return
    await runStep({ ...workflow, load: () => subject }, row, { db: world.db, sql: engineStatements, ...limits })
  }

  const sim: Simulation = {
    world,
    random: dice,
    apps: [],
    history: [],
    workflowsNow: [],
    changed: () => stage.changed(),
    get faults() {
      return state.faults
    },
    set faults(share) {
      state.faults = share
    },
    workflows: () => world.db.rows(sql.workflows),
    async step() {
      const all = sim.workflowsNow
      // Mostly one that is under way: what rests only looks around.
      const chosen = dice.pick(dice.chance(0.6) ? all.filter(one => !resting.has(one.phase)) : all) ?? dice.pick(all)
      if (!chosen) return
      visited.add(`${chosen.kind} ${chosen.phase}`)
      fate = dice.chance(state.faults) ? (dice.pick(['dies-before', 'dies-after', 'twice'] as const) ?? 'fine') : 'fine'
      sim.history.push(`step ${chosen.kind} ${chosen.id} ${chosen.phase}${fate === 'fine' ? '' : ` ${fate}`}`)
      await run(chosen)
    },
    async hostMoves(host) {
      if (state.faults > 0) sim.history.push(`${host.name} moves`)
      await host.tick()
      if (!host.reachable) return
      for (const vmId of host.vms.keys()) {
        const message = { hostId: host.id, observed: host.observed(vmId) }
        const text = JSON.stringify(message.observed)
        // Most of what is said again says nothing new.
        if (known.get(vmId + host.id) === text && !dice.chance(0.1)) continue
        heard.push(message)
        if (heard.length > 200) heard.shift()
        if (passes()) {
          known.set(vmId + host.id, text)
          await listen(message)
        }
        if (dice.chance(state.faults / 2)) await listen(message)
        const late = dice.chance(state.faults) ? dice.pick(heard) : undefined
        if (late) await listen(late)
      }
      for (const id of host.snapshots.keys())
        if (passes()) await world.db.tx(tx => recordSnapshot(tx, host.id, host.snapshot(id)))
      for (const id of host.storage.volumes.keys())
        if (passes()) await world.db.tx(tx => recordVolume(tx, host.storage.observed(id)))
      for (const id of host.storage.snapshots.keys())
        if (passes()) await world.db.tx(tx => recordVolumeSnapshot(tx, host.id, host.storage.snapshot(id)))
    },
    async heartbeat(host) {
      if (!host.reachable) return
      await touchHosts(world.db, [host.id])
      // A forget that gets lost is made good by the next beat.
      await reconcileHost(world.deps, host.id, host.heartbeat().vms ?? []).catch(() => undefined)
    },
    async passTime(seconds) {
      await world.db.rows(sql.pass, [seconds])
      for (const host of world.hosts) await sim.heartbeat(host)
    },
    sweep: async () =>
      void (await deadHosts(world.deps).run({ signal: new AbortController().signal, now: new Date() })),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
  return sim
}

/** The process may die before a handler, or after it has acted and before anything of it is written. */
function mortal(workflow: AnyWorkflow, fate: () => Fate, overtake: () => Promise<void>): AnyWorkflow {
  const phases = Object.entries(workflow.phases).map(([name, handler]) => [
    name,
    async (step: Step<unknown>) => {
      if (fate() === 'dies-before') throw new Error('the process died before the step')
      const next = await handler(step)
      if (fate() === 'twice') await overtake()
      if (fate() === 'dies-after') throw new Error('the process died after the step')
      return next
    },
  ])
  return { ...workflow, phases: Object.fromEntries(phases) }
}
