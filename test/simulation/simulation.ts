/**
 * One simulated run ("life"): real workflows, sweeps and statements of the control plane on a real database, with
 * simulated hosts. A seed determines each next event. Time is virtual: nothing waits, and to let time pass, all stored
 * timestamps are moved into the past.
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
import { simGvisor, simQemu } from '../support/sim-offers.ts'
import { type Random, random } from './random.ts'
import { brokenImage } from './release-operations.ts'
import type { Stage } from './stage.ts'

export interface WorkflowNow {
  readonly kind: string
  readonly id: string
  readonly phase: string
  readonly error: string | null
}

/** Stored timestamps, by table, that the control plane reads for decisions. */
const instants: Readonly<Record<string, readonly string[]>> = {
  machine: ['entered_at', 'deadline'],
  host: ['last_seen_at', 'suspected_at'],
  deployment: ['replaced_at', 'started_at', 'scheduled_at', 'stopped_at', 'canary_started_at'],
  app: ['last_request_at', 'scale_changed_at'],
  vm: ['placed_at', 'created_at'],
  run: ['started_at', 'ended_at'],
}
const sql = {
  workflows: statement<WorkflowNow>(
    'simulation.machines',
    'SELECT kind, id, phase, last_error AS error FROM machine ORDER BY id, kind',
  ),
  // Leases the chosen workflow, as a runner does.
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

/** Phases in which a workflow has settled and waits for a change of the desired state. */
const resting: ReadonlySet<string> = new Set(['steady', 'serving', 'keeping', 'missing'])
/**
 * Step timeout: so long that it never fires on a busy machine, because such a step could not be repeated with the seed.
 */
const stepTimeoutMs = 120_000

interface Heard {
  readonly hostId: string
  readonly observed: VmObserved
}

/**
 * Hosts with their hypervisors. The first is small, so it is full most of the time, and has QEMU without KVM. The
 * second has only gVisor, to which all hosts can move VMs. On the third, new VMs prefer QEMU, because it has KVM.
 */
const machines = [
  { vcpus: 3, offers: [simGvisor, { ...simQemu, emulated: true }] },
  { vcpus: 12, offers: [simGvisor] },
  { vcpus: 12, offers: [simGvisor, simQemu] },
]

/** Fault of a workflow step. `twice`: before its commit, another runner takes the lease and runs the whole step. */
type Fate = 'fine' | 'dies-before' | 'dies-after' | 'twice'

export interface Simulation extends AsyncDisposable {
  readonly world: ComputeWorld
  readonly random: Random
  readonly apps: (TestApp & { readonly isAlone: boolean })[]
  /** Workflow phases that were run, and noteworthy VM events on hosts, over all simulated runs. */
  readonly visited: Set<string>
  /** Past events, oldest first. */
  readonly history: string[]
  /** Probability that a message is lost or a workflow step fails. */
  faults: number
  /** True if an invariant could be affected by writes since the last call. */
  changed(): boolean
  /** Workflows as read by the last check of the invariants, which runs after every step. */
  workflowsNow: readonly WorkflowNow[]
  /** Runs one step of one workflow, possibly with a fault. */
  step(): Promise<void>
  /** Advances a host by one step; its reports arrive, or are lost, duplicated or delayed. */
  hostMoves(host: SimHost): Promise<void>
  /** Delivers a full heartbeat. */
  heartbeat(host: SimHost): Promise<void>
  passTime(seconds: number): Promise<void>
  sweep(): Promise<void>
  workflows(): Promise<WorkflowNow[]>
}

/** Starts a simulated run. @param visited receives the name of every workflow phase that was run */
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
  /** The last delivered report about each VM from each host, as JSON. */
  const known = new Map<string, string>()
  const passes = () => !dice.chance(state.faults)
  for (const machine of machines) await world.addHost({ ...machine, passes })
  for (const host of world.hosts) host.behaviour.set(brokenImage, 'crash')
  let fate: Fate = 'fine'
  let under: Pick<WorkflowNow, 'kind' | 'id'> | undefined
  /** Runs the whole step of the current workflow as another runner, which takes the lease. */
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
    if (!workflow) throw new Error(`BUG: no workflow of kind ${kind}`)
    const claimed = world.db.maybe(sql.claim, [kind, id, newId()])
    // Send the query for the workflow's resource together with the claim. On the same connection, it runs after the
    // claim.
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
    visited,
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
      // Prefer workflows in progress, because those that have settled only check their state.
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
        // Skip most reports that contain nothing new, to save time.
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
      // Ignore a lost request to forget a VM: the next heartbeat repeats it.
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

/**
 * Wraps the handlers of a workflow to inject a crash before a handler, or after its external effects but before its
 * commit.
 */
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
