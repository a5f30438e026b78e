/**
 * One run: real machines, sweeps and statements of the control plane on a real database; simulated hosts; a seed that
 * decides what happens next. Time is virtual: nothing waits, and hours pass by moving every stored instant back.
 */
import type { VmObserved } from '../../src/contract/agent.ts'
import { deadHosts, reconcileHost } from '../../src/control/fleet/index.ts'
import { touchHosts } from '../../src/control/hosts/index.ts'
import { recordSeen, recordSnapshot } from '../../src/control/vms/index.ts'
import type { AnyMachine, Step } from '../../src/engine/machine.ts'
import { createRunner } from '../../src/engine/runner.ts'
import { statement } from '../../src/db/db.ts'
import { type ComputeWorld, computeWorld, type TestApp } from '../support/compute.ts'
import type { SimHost } from '../support/sim-host.ts'
import { type Random, random } from './random.ts'

const sql = {
  machines: statement<{ kind: string; id: string; phase: string; error: string | null }>(
    'simulation.machines',
    'SELECT kind, id, phase, last_error AS error FROM machine ORDER BY id, kind',
  ),
  choose: statement(
    'simulation.choose',
    `UPDATE machine SET wake_at = CASE WHEN kind = $1 AND id = $2 THEN now() - interval '1 hour' ELSE now() + interval '1 hour' END,
       lease = NULL, lease_until = NULL, runner = NULL`,
  ),
}
/** Every stored instant that a decision looks at. */
const instants: Readonly<Record<string, readonly string[]>> = {
  machine: ['entered_at', 'deadline'],
  host: ['last_seen_at', 'suspected_at'],
  deployment: ['replaced_at', 'started_at', 'scheduled_at', 'stopped_at'],
  app: ['last_request_at', 'scale_changed_at'],
}

/** Phases in which a machine waits until somebody wants something else. */
const resting: ReadonlySet<string> = new Set(['steady', 'serving', 'keeping'])

interface Heard {
  readonly hostId: string
  readonly seen: VmObserved
}

export interface Simulation extends AsyncDisposable {
  readonly world: ComputeWorld
  readonly random: Random
  readonly apps: TestApp[]
  /** What was done, oldest first. */
  readonly history: string[]
  /** Share of messages and steps that go wrong. */
  faults: number
  /** One machine makes one step, perhaps interrupted. */
  step(): Promise<void>
  /** A host moves, and what it says arrives, or not, or twice, or late. */
  hostMoves(host: SimHost): Promise<void>
  /** A full beat arrives. */
  beat(host: SimHost): Promise<void>
  passTime(seconds: number): Promise<void>
  sweep(): Promise<void>
  machines(): Promise<{ kind: string; id: string; phase: string; error: string | null }[]>
}

/** @param visited gets every phase that was run */
export async function simulation(seed: number, visited = new Set<string>()): Promise<Simulation> {
  const dice = random(seed)
  const world = await computeWorld({ idleSeconds: 0, hostTimeoutSeconds: 60 })
  const state = { faults: 0 }
  const heard: Heard[] = []
  const passes = () => !dice.chance(state.faults)
  for (let n = 0; n < 3; n++) await world.addHost({ vcpus: 12, passes })
  /** What becomes of the step under way. */
  let fate: 'fine' | 'dies-before' | 'dies-after' = 'fine'
  const machines = Object.values<AnyMachine>(world.machines).map(machine => mortal(machine, () => fate))
  const runner = createRunner({ db: world.db, machines, log: world.deps.log, batch: 1, workers: 1 })
  const listen = async ({ hostId, seen }: Heard) => void (await world.db.tx(tx => recordSeen(tx, hostId, seen)))

  const sim: Simulation = {
    world,
    random: dice,
    apps: [],
    history: [],
    get faults() {
      return state.faults
    },
    set faults(share) {
      state.faults = share
    },
    machines: () => world.db.rows(sql.machines),
    async step() {
      const all = await sim.machines()
      // Mostly one that is under way: what rests only looks around.
      const chosen = dice.pick(dice.chance(0.6) ? all.filter(one => !resting.has(one.phase)) : all) ?? dice.pick(all)
      if (!chosen) return
      visited.add(`${chosen.kind} ${chosen.phase}`)
      fate = dice.chance(state.faults) ? (dice.chance(0.5) ? 'dies-before' : 'dies-after') : 'fine'
      sim.history.push(`step ${chosen.kind} ${chosen.id.slice(-6)} ${chosen.phase}${fate === 'fine' ? '' : ` ${fate}`}`)
      await world.db.run(sql.choose, [chosen.kind, chosen.id])
      await runner.tickOnce()
    },
    async hostMoves(host) {
      await host.tick()
      if (!host.reachable) return
      for (const vmId of host.vms.keys()) {
        const message = { hostId: host.id, seen: host.observed(vmId) }
        heard.push(message)
        if (heard.length > 200) heard.shift()
        if (passes()) await listen(message)
        if (dice.chance(state.faults / 2)) await listen(message)
        const late = dice.chance(state.faults) ? dice.pick(heard) : undefined
        if (late) await listen(late)
      }
      for (const id of host.snapshots.keys())
        if (passes()) await world.db.tx(tx => recordSnapshot(tx, host.id, host.snapshot(id)))
    },
    async beat(host) {
      if (!host.reachable) return
      await touchHosts(world.db, [host.id])
      // A forget that gets lost is made good by the next beat.
      await reconcileHost(world.deps, host.id, host.beat().vms ?? []).catch(() => undefined)
    },
    async passTime(seconds) {
      for (const [table, columns] of Object.entries(instants)) {
        const changes = columns.map(column => `${column} = ${column} - make_interval(secs => $1)`).join(', ')
        await world.db.run({ name: `simulation.pass.${table}`, text: `UPDATE ${table} SET ${changes}` }, [seconds])
      }
      for (const host of world.hosts) await sim.beat(host)
    },
    sweep: async () =>
      void (await deadHosts(world.deps).run({ signal: new AbortController().signal, now: new Date() })),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  }
  return sim
}

/** The process may die before a handler, or after it has acted and before anything of it is written. */
function mortal(machine: AnyMachine, fate: () => 'fine' | 'dies-before' | 'dies-after'): AnyMachine {
  const phases = Object.entries(machine.phases).map(([name, handler]) => [
    name,
    async (step: Step<unknown>) => {
      if (fate() === 'dies-before') throw new Error('the process died before the step')
      const next = await handler(step)
      if (fate() === 'dies-after') throw new Error('the process died after the step')
      return next
    },
  ])
  return { ...machine, phases: Object.fromEntries(phases) }
}
