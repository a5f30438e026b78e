/**
 * The workflows of deployments, VMs, volumes and databases, on a database of their own, with simulated hosts. There are
 * no timers: the test triggers every step.
 */
import { createHash } from 'node:crypto'
import { createMemoryBus } from '../../src/bus/memory.ts'
import { appWorkflow } from '../../src/control/apps/index.ts'
import { parseControlConfig, type ControlConfig } from '../../src/control/base/config.ts'
import { branchWorkflow, databaseSnapshotWorkflow } from '../../src/control/databases/index.ts'
import {
  createDeployment,
  deploymentWorkflow,
  type NewDeployment,
  removeDeployment,
} from '../../src/control/deployments/index.ts'
import type { Deps } from '../../src/control/base/deps.ts'
import { hostWorkflow } from '../../src/control/fleet/index.ts'
import { recordHeartbeat } from '../../src/control/hosts/index.ts'
import { snapshotMoveWorkflow, volumeMoveWorkflow } from '../../src/control/moves/index.ts'
import { runWorkflow } from '../../src/control/runs/index.ts'
import { recordObserved, recordSnapshot, snapshotWorkflow, vmWorkflow } from '../../src/control/vms/index.ts'
import { migrationWorkflow } from '../../src/control/migrations/index.ts'
import {
  recordVolume,
  recordVolumeSnapshot,
  volumeWorkflow,
  volumeSnapshotWorkflow,
} from '../../src/control/volumes/index.ts'
import { createDrains } from '../../src/control/routing/index.ts'
import { type Param, statement, type Tx } from '../../src/db/db.ts'
import type { AnyWorkflow } from '../../src/engine/workflow.ts'
import { createRunner } from '../../src/engine/runner.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { newId } from '../../src/lib/ids.ts'
import { createVault } from '../../src/lib/vault.ts'
import { type TestDatabase, testDatabase } from './database.ts'
import { testLog } from './log.ts'
import { type SimHost, type SimHostOptions, simHost } from './sim-host.ts'

const sql = {
  project: statement(
    'test.project',
    `INSERT INTO project (id, slug, name, plan, ipv6_prefix) VALUES ($1, $2, $2, 'unlimited', $3)`,
  ),
  app: statement(
    'test.app',
    `INSERT INTO app (id, project_id, name, git_url, port, health_check_path, drain_timeout, desired_replicas, min_replicas,
       max_replicas, autoscaling_enabled, cpu_threshold, mem_threshold, hostname, scm_webhook_secret)
     VALUES ($1, $2, $3, '', 8080, '/', 0, $4, $5, 100, false, 80, 80, $3 || '.test', ''::bytea)`,
  ),
  due: statement('test.due', `UPDATE machine SET wake_at = now() WHERE lease IS NULL`),
  /** Lets time pass for waiting workflows, except for one that the test runs step by step. */
  pass: statement(
    'test.pass',
    `UPDATE machine SET wake_at = CASE WHEN id = $1::uuid THEN now() + interval '1 hour' ELSE wake_at - $2::int * interval '1 second' END
     WHERE lease IS NULL`,
  ),
  abandon: statement('test.abandon', `DELETE FROM machine WHERE kind <> 'host'`),
  giveBack: statement('test.giveBack', `UPDATE host SET used_vcpus = 0, used_memory_mib = 0, used_disk_mib = 0`),
  used: statement<{ vcpus: number; memoryMib: number; diskMib: number }>(
    'test.used',
    `SELECT coalesce(sum(used_vcpus), 0)::int AS vcpus, coalesce(sum(used_memory_mib), 0)::int AS "memoryMib",
       coalesce(sum(used_disk_mib), 0)::int AS "diskMib" FROM host`,
  ),
}

export const shape: Pick<NewDeployment, 'image' | 'hypervisor' | 'vcpus' | 'memoryMib' | 'diskMib' | 'port'> = {
  image: 'example/app:1',
  hypervisor: 0,
  vcpus: 1,
  memoryMib: 512,
  diskMib: 1024,
  port: 8080,
}

/**
 * Simulated time between two rounds: longer than workflows wait before they query a host again, but shorter than
 * settled workflows wait for their next check.
 */
const roundSeconds = 30

export interface TestApp {
  readonly id: string
  readonly projectId: string
  readonly name: string
}

/** @param database of the caller, who drops it; by default a new one, which is dropped on disposal */
export async function computeWorld(
  config: Partial<ControlConfig> = {},
  database: Pick<TestDatabase, 'db' | 'drop'> | undefined = undefined,
) {
  const { db, drop } = database ?? (await testDatabase())
  const bus = createMemoryBus()
  const settings: ControlConfig = {
    ...parseControlConfig({ MOTE_SECRET_KEY: 'test-'.repeat(8), MOTE_CAPTCHA: 'off' }),
    // Long timeout, because simulated hosts send heartbeats only when a test requests them.
    hostTimeoutSeconds: 3600,
    ...config,
  }
  const log = testLog()
  // Every read of the clock advances it by one second, so that caches with a shorter lifetime expire on any machine.
  let lookedMs = 0
  const clock = { ...systemClock, monotonicMs: () => (lookedMs += 1000) }
  const deps: Deps = { db, bus, log, config: settings, clock, vault: createVault(settings.secrets) }
  const hosts: SimHost[] = []
  const wires = new Map()
  const parcels = new Map()
  const truth = new Map()
  const snapshotParcels = new Map()
  /**
   * Runs every due workflow once per round. The batch is large because a smaller one may select the same rows again
   * when many earlier tests have left due rows.
   */
  const tick = (workflows: readonly AnyWorkflow[]) => createRunner({ db, workflows, log, batch: 100_000 }).tickOnce()
  /** The last report of each host about each object, as JSON. As with agents, unchanged reports are not sent. */
  const reported = new Map<string, string>()
  const report = async <T>(
    host: SimHost,
    id: string,
    observed: T,
    record: (tx: Tx, observed: T) => Promise<unknown>,
  ) => {
    const text = JSON.stringify(observed)
    const key = `${host.id} ${id}`
    if (reported.get(key) === text) return
    await db.tx(tx => record(tx, observed))
    reported.set(key, text)
  }
  const drains = createDrains(0)
  const workflows = {
    vm: vmWorkflow(deps),
    deployment: deploymentWorkflow(deps),
    run: runWorkflow(deps),
    app: appWorkflow(deps),
    snapshot: snapshotWorkflow(deps),
    migration: migrationWorkflow({ ...deps, live: { drains } }),
    volume: volumeWorkflow(deps),
    volumeSnapshot: volumeSnapshotWorkflow(deps),
    volumeMove: volumeMoveWorkflow(deps),
    snapshotMove: snapshotMoveWorkflow(deps),
    branch: branchWorkflow(deps),
    databaseSnapshot: databaseSnapshotWorkflow(deps),
    host: hostWorkflow(deps),
  } satisfies Record<string, AnyWorkflow>
  const projectId = newId()
  await db.run(sql.project, [projectId, 'test', 'fd00:1:2:3::/64'])
  let apps = 0

  const world = {
    db,
    bus,
    deps,
    hosts,
    workflows,
    /** Reports of gateways about open requests to VMs that are about to move. */
    drains,
    projectId,
    async addHost(options: Partial<SimHostOptions> = {}): Promise<SimHost> {
      const host = await simHost(bus, {
        id: newId(),
        name: `host-${hosts.length + 1}`,
        wires,
        parcels,
        truth,
        snapshotParcels,
        ...options,
      })
      hosts.push(host)
      await recordHeartbeat(db, host.heartbeat(), 1)
      return host
    },
    async app({ replicas = 1, minReplicas = 1 }: { replicas?: number; minReplicas?: number } = {}): Promise<TestApp> {
      const app = { id: newId(), projectId, name: `app-${++apps}` }
      await db.run(sql.app, [app.id, projectId, app.name, replicas, minReplicas])
      return app
    },
    /** Creates a deployment with the same rows as the API would. */
    deploy: (app: TestApp, { replicas = 1, ...change }: Partial<typeof shape> & { replicas?: number } = {}) =>
      db.tx(tx =>
        createDeployment(tx, {
          ...shape,
          ...change,
          projectId,
          appId: app.id,
          replicas,
          ipv6Prefix: 'fd00:1:2:3::/64',
          triggerSource: 'api',
        }),
      ),
    /** Advances every host by one step, and records its reports. */
    async hostsMove(): Promise<void> {
      for (const host of hosts) {
        await host.tick()
        if (!host.reachable) continue
        for (const vmId of host.vms.keys())
          await report(host, vmId, host.observed(vmId), (tx, vm) => recordObserved(tx, host.id, vm))
        for (const id of host.storage.volumes.keys()) await report(host, id, host.storage.observed(id), recordVolume)
        for (const id of host.storage.snapshots.keys())
          await report(host, id, host.storage.snapshot(id), (tx, one) => recordVolumeSnapshot(tx, host.id, one))
        for (const id of host.snapshots.keys())
          await report(host, id, host.snapshot(id), (tx, one) => recordSnapshot(tx, host.id, one))
      }
    },
    /** Runs every workflow of these kinds once, whether or not it is due. */
    async run(...kinds: (keyof typeof workflows)[]): Promise<void> {
      await db.run(sql.due, [])
      await tick(kinds.map(kind => workflows[kind]))
    },
    /**
     * Advances hosts and due workflows in turn until `done` returns true. `except`: id of a workflow that must not run.
     */
    async until(done: () => Promise<boolean>, rounds = 60, except?: string): Promise<void> {
      for (let round = 0; round < rounds; round++) {
        if (await done()) return
        await world.hostsMove()
        await db.run(sql.pass, [except ?? null, roundSeconds])
        await tick(Object.values(workflows))
      }
      throw new Error(`the condition is still false after ${rounds} rounds`)
    },
    /** Deletes all deployments of an app, and waits until they are gone. */
    async deploymentsEnd(app: TestApp): Promise<void> {
      for (const { id } of await world.rows<{ id: string }>(`SELECT id FROM deployment WHERE app_id = $1`, app.id))
        await db.tx(tx => removeDeployment(tx, id))
      await world.until(
        async () => (await world.rows(`SELECT id FROM deployment WHERE app_id = $1`, app.id)).length === 0,
      )
    },
    /**
     * Abandons all resources of earlier tests: their workflows no longer run, and hosts no longer report them.
     * Otherwise each round would process them all, and a suite of 200 tests would take four times as long.
     */
    async abandonAll(): Promise<void> {
      await db.run(sql.abandon, [])
      await db.run(sql.giveBack, [])
      for (const host of hosts) host.clear()
    },
    used: () => db.one(sql.used),
    rows: <Row>(text: string, ...params: Param[]): Promise<Row[]> =>
      db.rows<Row>({ name: `test.${createHash('sha1').update(text).digest('hex')}`, text }, params),
    async [Symbol.asyncDispose]() {
      for (const host of hosts) await host.stop()
      await bus.close()
      await drop()
    },
  }
  return world
}
export type ComputeWorld = Awaited<ReturnType<typeof computeWorld>>
