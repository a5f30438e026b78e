/**
 * Invariants that hold after every step, and invariants that hold once all faults have ended. Numbers such as I22 name
 * an invariant in messages and documents.
 */
import { expect } from 'vitest'
import { statement } from '../../src/db/db.ts'
import { checkLimit, type LimitedRow } from './limits.ts'
import { imageOfVmsOnly } from './operations.ts'
import type { WorkflowNow, Simulation } from './simulation.ts'

interface HostRoom {
  readonly name: string
  /** Name of the reserved resource: `vCPUs` or `memory`. */
  readonly what: string
  readonly used: number
  readonly capacity: number
  readonly accounted: number
}

/**
 * Returns a query for the reserved capacity of each host, and for what should be reserved: the sum of its VMs, of
 * strays (VMs given up with their host) and of migrations to or from it.
 */
const roomsOf = (
  what: string,
  column: string,
) => `SELECT h.name, '${what}' AS what, h.used_${column} AS used, h.${column} AS capacity,
  ((SELECT coalesce(sum(${column}), 0) FROM vm WHERE host_id = h.id)
   + (SELECT coalesce(sum(${column}), 0) FROM stray WHERE host_id = h.id)
   + (SELECT coalesce(sum(${column}), 0) FROM migration WHERE ended_at IS NULL
      AND CASE WHEN state = 'clearing' THEN source_host_id ELSE target_host_id END = h.id))::int AS accounted FROM host h`
const rooms = `${roomsOf('vCPUs', 'vcpus')} UNION ALL ${roomsOf('memory', 'memory_mib')} ORDER BY name, what`

/** Queries that return a row for each violation, by the description of the violation. */
const never: Readonly<Record<string, string>> = {
  'replica limits out of order (I22)': `SELECT id FROM app WHERE NOT (0 <= min_replicas AND min_replicas <= desired_replicas AND desired_replicas <= max_replicas)`,
  'an active deployment of another app, or a deleted one (I23)': `SELECT a.id FROM app a LEFT JOIN deployment d ON d.id = a.active_deployment_id
     WHERE a.active_deployment_id IS NOT NULL AND (d.id IS NULL OR d.app_id <> a.id OR d.outcome IS NOT NULL)`,
  'a VM of an app that is scaled to zero (I25)': `SELECT v.id FROM vm v JOIN app a ON a.active_deployment_id = v.deployment_id
     WHERE a.scale_state = 'scaled_to_zero' AND v.want <> 'absent' AND v.run_id IS NULL`,
  'timestamps out of order (I26)': `SELECT id FROM deployment WHERE started_at IS NOT NULL AND (scheduled_at IS NULL OR scheduled_at > started_at OR stopped_at < started_at)`,
  'a VM without a workflow, or a workflow without a VM (I27)': `SELECT coalesce(v.id, m.id) AS id FROM vm v
     FULL JOIN (SELECT id FROM machine WHERE kind = 'vm') m ON m.id = v.id WHERE v.id IS NULL OR m.id IS NULL`,
  'a wanted VM of a deployment that has ended (I27)': `SELECT v.id FROM vm v JOIN deployment d ON d.id = v.deployment_id
     WHERE v.want <> 'absent' AND v.run_id IS NULL AND d.outcome IN ('stopped', 'cancelled', 'superseded', 'failed')`,
  'a live deployment without a workflow': `SELECT d.id FROM deployment d WHERE d.outcome IS NULL AND NOT EXISTS (
     SELECT FROM machine m WHERE m.kind = 'deployment' AND m.id = d.id)`,
  'an active canary with too many errors': `SELECT d.id FROM app a JOIN deployment d ON d.id = a.active_deployment_id
     WHERE d.canary_state IS NOT NULL AND d.canary_requests >= 20 AND d.canary_failed * 20 > d.canary_requests`,
  'an active deployment whose canary has not passed': `SELECT d.id FROM app a JOIN deployment d ON d.id = a.active_deployment_id
     WHERE d.canary_state <> 'passed'`,
  'a VM of a run that has ended': `SELECT v.id FROM vm v JOIN run r ON r.id = v.run_id WHERE r.ended_at IS NOT NULL`,
  'a run without a workflow that has not ended': `SELECT r.id FROM run r WHERE r.ended_at IS NULL
     AND NOT EXISTS (SELECT FROM machine m WHERE m.kind = 'run' AND m.id = r.id)`,
  'a route to a VM that is not healthy, or not of the active deployment': `SELECT r.hostname AS id, r.state, v.id AS vm, v.healthy, v.want, v.deployment_id, a.active_deployment_id FROM route r, jsonb_array_elements(r.backends) b
     LEFT JOIN vm v ON v.id::text = b->>'vmId' JOIN app a ON true
     WHERE a.id = r.app_id AND (v.id IS NULL OR NOT v.healthy OR v.want <> 'running' OR (v.deployment_id IS DISTINCT FROM a.active_deployment_id
       AND (a.strategy = 'rolling' OR v.app_id <> a.id)))`,
  'two VMs with write access to one volume (I38)': `SELECT volume_id AS id FROM vm_disk WHERE NOT read_only GROUP BY volume_id HAVING count(*) > 1`,
  'a volume with readers and a writer (I39)': `SELECT volume_id AS id FROM vm_disk GROUP BY volume_id HAVING bool_or(read_only) AND bool_or(NOT read_only)`,
  'a volume that is deleted or restored while attached (I40)': `SELECT o.id FROM volume o WHERE (o.want = 'absent' OR o.state = 'restoring')
     AND EXISTS (SELECT FROM vm_disk k WHERE k.volume_id = o.id)`,
  'a VM on another host than its volume': `SELECT k.volume_id AS id FROM vm_disk k JOIN volume o ON o.id = k.volume_id JOIN vm v ON v.id = k.vm_id
     WHERE o.bound AND o.host_id IS DISTINCT FROM v.host_id`,
  'a volume without its workflow (I47)': `SELECT coalesce(o.id, m.id) AS id FROM volume o
     FULL JOIN (SELECT id FROM machine WHERE kind = 'volume') m ON m.id = o.id WHERE o.id IS NULL OR m.id IS NULL`,
  'a moving volume without a workflow that moves it': `SELECT o.id FROM volume o WHERE o.moving_to IS NOT NULL AND NOT EXISTS (
     SELECT FROM volume_move x JOIN machine m ON m.kind = 'volume-move' AND m.id = x.id WHERE x.volume_id = o.id AND x.ended_at IS NULL)`,
  'two VMs with one address (I20)': `SELECT min(id::text) AS id FROM vm GROUP BY ipv6_address HAVING count(*) > 1`,
}

interface VmRow {
  readonly id: string
  readonly generation: number
  readonly host: string | null
  readonly barred: boolean
}
interface AppRow {
  readonly id: string
  readonly state: string
  readonly active: string | null
}
interface DeploymentRow {
  readonly id: string
  readonly outcome: string | null
}
interface Picture {
  readonly rooms: readonly HostRoom[]
  readonly never: readonly { readonly what: string; readonly found: unknown }[]
  readonly vms: readonly VmRow[]
  readonly apps: readonly AppRow[]
  readonly deployments: readonly DeploymentRow[]
  /** Apps with the strategy `one-at-a-time`, which limits how many VMs they may have. */
  readonly limited: readonly LimitedRow[]
  readonly strays: readonly { readonly id: string }[]
  readonly workflows: readonly WorkflowNow[]
}

const all = (rows: string) => `(SELECT coalesce(json_agg(r), '[]') FROM (${rows}) r)`
const forbidden = Object.entries(never)
  .map(([what, text]) => `SELECT '${what}' AS what, row_to_json(found) AS found FROM (${text}) found`)
  .join(' UNION ALL ')

/**
 * Reads all that the invariants need in one statement, because a separate query for each would be slow. All rows are
 * sorted, so that a seed whose run violates several invariants always reports the same one.
 */
const picture = statement<Picture>(
  'simulation.picture',
  `SELECT ${all(rooms)} AS rooms, ${all(`${forbidden} ORDER BY what`)} AS never,
     ${all(`SELECT v.id, v.generation, v.host_id AS host, h.cordoned OR h.lost_at IS NOT NULL AS barred FROM vm v LEFT JOIN host h ON h.id = v.host_id ORDER BY v.id`)} AS vms,
     ${all(`SELECT id, scale_state AS state, active_deployment_id AS active FROM app ORDER BY id`)} AS apps,
     ${all(`SELECT id, outcome FROM deployment ORDER BY id`)} AS deployments,
     ${all(`SELECT id, greatest(desired_replicas, 1) AS wanted, (SELECT count(*)::int FROM vm WHERE vm.app_id = app.id AND run_id IS NULL) AS vms
       FROM app WHERE strategy = 'one-at-a-time' ORDER BY id`)} AS limited,
     ${all(`SELECT vm_id AS id FROM stray`)} AS strays,
     ${all(`SELECT kind, id, phase, last_error AS error FROM machine ORDER BY id, kind`)} AS workflows`,
)

export interface Watch {
  /** Checks the invariants; called after each step. */
  check(): Promise<void>
}

const scaleEdges: ReadonlySet<string> = new Set([
  'active>idle',
  'idle>active',
  'idle>scaled_to_zero',
  'scaled_to_zero>warming_up',
  'warming_up>active',
  'warming_up>scaled_to_zero',
])

export function watch(sim: Simulation): Watch {
  const generations = new Map<string, number>()
  const placed = new Map<string, string | null>()
  const scaleStates = new Map<string, string>()
  const outcomes = new Map<string, string>()
  const most = new Map<string, number>()
  const strays = new Set<string>()
  return {
    async check() {
      checkPlaces(sim)
      checkWriters(sim)
      // Skip the query if nothing has changed that it reads, as after half of all steps.
      if (!sim.changed()) return
      const now = await sim.world.db.one(picture)
      sim.workflowsNow = now.workflows
      checkRooms(now.rooms)
      if (now.never.length > 0) expect(now.never, 'violated invariants').toEqual([])
      for (const vm of now.vms) checkVm(vm, generations, placed)
      for (const app of now.apps) checkScale(app, scaleStates)
      for (const d of now.deployments) checkOutcome(d, outcomes)
      for (const { id } of now.strays) strays.add(id)
      for (const app of now.limited) checkLimit(sim, app, most, strays)
    },
  }
}

function checkRooms(hosts: readonly HostRoom[]): void {
  for (const room of hosts) {
    if (room.used !== room.accounted)
      expect(
        room.used,
        `${room.what} of ${room.name}: the reserved capacity differs from the sum of its users (I34)`,
      ).toBe(room.accounted)
    if (room.used > room.capacity)
      expect(room.used, `${room.what} of ${room.name} exceed the capacity (I33)`).toBeLessThanOrEqual(room.capacity)
  }
}

function checkVm(vm: VmRow, generations: Map<string, number>, placed: Map<string, string | null>): void {
  const before = generations.get(vm.id) ?? 0
  if (vm.generation < before) expect(vm.generation, 'a generation decreased (I28)').toBeGreaterThanOrEqual(before)
  generations.set(vm.id, vm.generation)
  if (vm.host && placed.get(vm.id) === null && vm.barred)
    expect.fail(`VM ${vm.id} was placed on a cordoned or lost host (I37)`)
  placed.set(vm.id, vm.host)
}

/** Checks the VMs that the simulated hosts actually run, independently of the database. */
function checkPlaces(sim: Simulation): void {
  const running = new Map<string, string>()
  const identities = new Map<string, string>()
  for (const host of sim.world.hosts) {
    let vcpus = 0
    for (const [id, vm] of host.vms) {
      if (vm.state !== 'running' && vm.state !== 'paused') continue
      const { hypervisor, image } = vm.desired.spec
      if (image === imageOfVmsOnly && hypervisor === 'gvisor')
        expect.fail(`VM ${id} on ${host.name} needs a virtual machine, and runs on gVisor`)
      sim.visited.add(`${image === imageOfVmsOnly ? 'vm' : 'any'} ${hypervisor}`)
      const { migration } = vm.record
      if (migration?.role === 'target' && migration.phase === 'switched') sim.visited.add(`arrival ${hypervisor}`)
      if (vm.restored) sim.visited.add(`restore ${hypervisor}`)
      vcpus += vm.desired.spec.vcpus
      if (running.has(id)) expect.fail(`VM ${id} runs on ${running.get(id)} and on ${host.name} (I48)`)
      running.set(id, host.name)
      if (identities.has(vm.identity)) expect.fail(`${id} and ${identities.get(vm.identity)} share an identity (I50)`)
      identities.set(vm.identity, id)
    }
    // `vcpus` includes VMs that still run on an unreachable host although they were given up.
    const capacity = host.heartbeat(false).vcpus
    if (vcpus > capacity) expect.fail(`${host.name} runs ${vcpus} vCPUs, and has ${capacity} (I33)`)
  }
}

/** Checks that at most one VM on all hosts has write access to a volume, independently of the database. */
function checkWriters(sim: Simulation): void {
  const writers = new Map<string, string>()
  for (const host of sim.world.hosts)
    for (const [vmId, vm] of host.vms)
      for (const disk of vm.disks) {
        const desired = vm.desired.spec.disks.find(one => one.volumeId === disk.volumeId)
        if (desired?.readOnly !== false || disk.state !== 'attached') continue
        if (writers.has(disk.volumeId))
          expect.fail(`${vmId} and ${writers.get(disk.volumeId)} write to volume ${disk.volumeId} (I38)`)
        writers.set(disk.volumeId, vmId)
      }
}

function checkScale({ id, state, active }: AppRow, states: Map<string, string>): void {
  const before = states.get(id)
  // An app may become `active` from any state: activating another deployment, or none, resets its scale state.
  if (before && before !== state && state !== 'active' && !scaleEdges.has(`${before}>${state}`))
    expect.fail(`invalid transition ${before}>${state} of scale_state of ${active} (I25)`)
  states.set(id, state)
}

/** Checks that a deployment's outcome never changes, except to none when the deployment is activated again. */
function checkOutcome({ id, outcome }: DeploymentRow, outcomes: Map<string, string>): void {
  const before = outcomes.get(id)
  if (before && outcome && outcome !== before) expect.fail(`deployment ${id} was ${before} and is ${outcome} (I26)`)
  if (outcome) outcomes.set(id, outcome)
  else outcomes.delete(id)
}

const restingPhases = new Set([
  ...['deployment serving', 'deployment sleeping', 'vm steady', 'vm-snapshot keeping', 'volume keeping'],
  // A volume without a host remains in `placing` until a VM needs it.
  ...['volume placing', 'volume-snapshot keeping'],
])

/**
 * Stands in for a user who fixes deployments that can never be placed. Such a deployment requires the isolation `vm`,
 * but a volume of its app is on a host without a hypervisor for VMs; the statement removes the requirement.
 */
const needless = `UPDATE deployment d SET hypervisor = 0, image = 'example/app:1' FROM vm v
  WHERE v.deployment_id = d.id AND v.host_id IS NULL AND d.hypervisor = 5
    AND v.placement_note LIKE '%hypervisor not offered%' AND v.placement_note LIKE '%volume elsewhere%'
  RETURNING d.id`

/** Ends all faults and expects every workflow to settle in its desired state (I32). */
export async function settle(sim: Simulation): Promise<void> {
  sim.faults = 0
  const { world } = sim
  for (const host of world.hosts) host.reachable = true
  await world.rows(`UPDATE host SET cordoned = false, draining = false RETURNING id`)
  await world.rows(`UPDATE deployment SET want = 'running' WHERE want = 'paused' RETURNING id`)
  let left: string[] = []
  for (let round = 0; round < 80; round++) {
    await world.rows(needless)
    await sim.passTime(round % 5 === 0 ? 400 : 1)
    for (const host of world.hosts) await sim.hostMoves(host)
    await world.run(
      'vm',
      'deployment',
      'run',
      'app',
      'snapshot',
      'migration',
      'host',
      'volume',
      'volumeSnapshot',
      'volumeMove',
      'snapshotMove',
    )
    left = (await sim.workflows())
      .filter(one => !restingPhases.has(`${one.kind} ${one.phase}`))
      .map(one => `${one.kind} ${one.phase} ${one.error ?? ''}`)
    if (left.length === 0 && round > 6) break
  }
  if (left.length > 0) {
    const notes = await world.rows(`SELECT id, placement_note AS note FROM vm WHERE placement_note IS NOT NULL`)
    expect({ left, notes }, 'workflows that never settled').toEqual({ left: [], notes: [] })
  }
  const stray = await world.rows(`SELECT vm_id FROM stray`)
  expect(stray, 'capacity is still reserved for VMs that are gone').toEqual([])
  const owned = await world.rows<{ id: string; host: string }>(`SELECT id, host_id AS host FROM vm ORDER BY id`)
  const real = world.hosts.flatMap(host => [...host.vms.keys()].map(id => ({ id, host: host.id })))
  expect(
    real.sort((a, b) => a.id.localeCompare(b.id)),
    'VMs on the hosts differ from the placed ones (I27)',
  ).toEqual(owned)
  const volumes = await world.rows<{ id: string; host: string }>(
    `SELECT id, host_id AS host FROM volume WHERE host_id IS NOT NULL ORDER BY id`,
  )
  const stored = world.hosts.flatMap(host => [...host.storage.volumes.keys()].map(id => ({ id, host: host.id })))
  expect(
    stored.sort((a, b) => a.id.localeCompare(b.id)),
    'a volume is missing on its host, or exists more than once',
  ).toEqual(volumes)
  const short = await world.rows(
    `SELECT a.name, a.desired_replicas, (SELECT count(*)::int FROM vm v WHERE v.deployment_id = d.id AND v.run_id IS NULL AND v.healthy) AS healthy
     FROM app a JOIN deployment d ON d.id = a.active_deployment_id
     WHERE a.scale_state = 'active' AND (SELECT count(*) FROM vm v WHERE v.deployment_id = d.id AND v.run_id IS NULL AND v.healthy) <> greatest(a.desired_replicas, 1)`,
  )
  expect(short, 'fewer healthy replicas than desired (I32)').toEqual([])
}
