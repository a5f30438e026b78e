/** Random operations of users and operators, and random faults. The simulation chooses among them at any time. */
import { startDeletingApp } from '../../src/control/apps/end.ts'
import { removeDeployment, takeDown } from '../../src/control/deployments/end.ts'
import * as deployments from '../../src/control/deployments/store.ts'
import { can, statusOf, type Verb } from '../../src/control/deployments/rules.ts'
import { wakeApp, wakeAppNow } from '../../src/control/scaling/index.ts'
import { cordon, listHosts, reserve } from '../../src/control/hosts/index.ts'
import { ApiError } from '../../src/control/http/errors.ts'
import { requestRestore } from '../../src/control/vm-operations/index.ts'
import { createSnapshot, dropSnapshots, listSnapshots } from '../../src/control/vms/index.ts'
import {
  cancelMigration,
  chooseMove,
  coMovedOf,
  moveObstacle,
  startMigration,
} from '../../src/control/migrations/index.ts'
import { refreshRoute } from '../../src/control/routing/index.ts'
import type { Tx } from '../../src/db/db.ts'
import { poke } from '../../src/engine/runner.ts'
import type { Simulation } from './simulation.ts'
import { chooseStrategy, releaseOperations } from './release-operations.ts'
import { volumeOperations } from './volume-operations.ts'

const anyDeployment = async (sim: Simulation) => {
  const rows = await sim.world.rows<{ id: string }>(`SELECT id FROM deployment WHERE want <> 'deleted' ORDER BY id`)
  const id = sim.random.pick(rows)?.id
  return id ? deployments.byId(sim.world.db, id) : undefined
}
const allowed = (verb: Verb, d: deployments.Deployment) => {
  const statuses: readonly string[] = can[verb]
  return statuses.includes(statusOf(d)) && d.appWant === 'live'
}
const runningOf = (d: deployments.Deployment) =>
  d.vms.find(vm => vm.want === 'running' && vm.observedState === 'running' && vm.hostId)

const desired = (verb: 'pause' | 'resume', want: 'paused' | 'running') => async (sim: Simulation) => {
  const d = await anyDeployment(sim)
  if (!d || !allowed(verb, d)) return
  await sim.world.db.tx(async tx => {
    await deployments.desired(tx, d.id, want)
    await poke(tx, 'deployment', d.id)
    await refreshRoute(tx, d.appId)
  })
}

/** Image of deployments with the isolation `vm`, by which the invariants recognize these deployments on hosts. */
export const imageOfVmsOnly = 'example/vms-only:1'

/** An operation of the simulation: its name, its relative frequency and its action. */
export type Operation = readonly [string, number, (sim: Simulation) => Promise<unknown>]

export const operations: readonly Operation[] = [
  ...volumeOperations,
  ...releaseOperations,
  [
    'create an app',
    9,
    async sim => {
      if (sim.apps.length >= 4) return
      // Some apps have at most one VM, so that they may have a writable volume.
      const isAlone = sim.random.chance(0.4)
      const replicas = isAlone ? 1 : 1 + sim.random.below(2)
      const app = await sim.world.app({ replicas, minReplicas: sim.random.chance(0.25) ? 1 : 0 })
      if (isAlone) await sim.world.rows(`UPDATE app SET max_replicas = 1 WHERE id = $1 RETURNING id`, app.id)
      await chooseStrategy(sim, app)
      sim.apps.push({ ...app, isAlone })
    },
  ],
  [
    'deploy',
    9,
    async sim => {
      const app = sim.random.pick(sim.apps)
      const alive =
        app && (await sim.world.rows(`SELECT id FROM deployment WHERE app_id = $1 AND outcome IS NULL`, app.id))
      if (!app || !alive || alive.length >= 3) return
      const isolation = sim.random.chance(0.2) ? { hypervisor: 5, image: imageOfVmsOnly } : {}
      await sim.world.deploy(app, { replicas: 1, ...isolation })
    },
  ],
  [
    'stop',
    2,
    async sim => {
      const d = await anyDeployment(sim)
      if (!d || d.outcome || !allowed('stop', d)) return
      await sim.world.db.tx(async tx => {
        await deployments.desired(tx, d.id, 'stopped')
        await takeDown(tx, d.id)
      })
    },
  ],
  [
    'delete a deployment',
    1,
    async sim => {
      const d = await anyDeployment(sim)
      if (d) await sim.world.db.tx(tx => removeDeployment(tx, d.id))
    },
  ],
  [
    'delete an app',
    1,
    async sim => {
      const app = sim.random.pick(sim.apps)
      if (!app) return
      sim.apps.splice(sim.apps.indexOf(app), 1)
      await sim.world.db.tx(tx => startDeletingApp(tx, app.id))
    },
  ],
  ['pause', 2, desired('pause', 'paused')],
  ['resume', 3, desired('resume', 'running')],
  [
    'scale',
    2,
    async sim => {
      const app = sim.random.pick(sim.apps)
      if (app)
        await sim.world.rows(
          `UPDATE app SET desired_replicas = least(max_replicas, greatest(min_replicas, $2::int)) WHERE id = $1 RETURNING id`,
          app.id,
          1 + sim.random.below(3),
        )
    },
  ],
  [
    'fall idle',
    6,
    sim =>
      sim.world
        .rows(
          `UPDATE app a SET scale_state = 'idle', scale_changed_at = now() FROM machine m, deployment d
         WHERE m.kind = 'deployment' AND m.id = a.active_deployment_id AND m.phase = 'serving' AND a.min_replicas = 0
           AND d.id = m.id AND d.want = 'running' AND a.scale_state = 'active' AND a.want = 'live' RETURNING a.id`,
        )
        .then(async idle => {
          for (const { id } of idle as { id: string }[]) await sim.world.db.tx(tx => refreshRoute(tx, id))
        }),
  ],
  [
    'a request',
    9,
    async sim => {
      // Usually request a suspended app, because the request then wakes it.
      const asleep = await sim.world.rows<{ id: string }>(
        `SELECT id FROM app WHERE scale_state = 'scaled_to_zero' ORDER BY id`,
      )
      const app = sim.random.chance(0.2) ? sim.random.pick(sim.apps) : sim.random.pick(asleep)
      // Cover both ways to wake an app: `wakeAppNow` also sends a request to a host at once.
      const now = { hostTimeoutSeconds: 3600, afterMs: 0 }
      const wake = sim.random.chance(0.5) ? wakeApp : (tx: Tx, id: string) => wakeAppNow(tx, id, now)
      if (app) await sim.world.db.tx(async tx => void (await wake(tx, app.id)))
    },
  ],
  [
    'take a snapshot',
    2,
    async sim => {
      const d = await anyDeployment(sim)
      const vm = d && runningOf(d)
      if (!d || !vm?.hostId || !vm.canSnapshot || d.outcome) return
      const { hostId } = vm
      const name = `s${sim.history.length}`
      await sim.world.db.tx(tx =>
        createSnapshot(tx, { ...d, deploymentId: d.id, vmId: vm.id, hostId, kind: 'user', name }),
      )
    },
  ],
  [
    'restore a snapshot',
    2,
    async sim => {
      const d = await anyDeployment(sim)
      if (!d || d.outcome) return
      const kept = (await listSnapshots(sim.world.db, d.id)).filter(one =>
        d.vms.some(
          vm =>
            vm.id === one.vmId && vm.want !== 'absent' && vm.hostId === one.hostId && !vm.migrating && vm.observedState,
        ),
      )
      const snapshot = sim.random.pick(kept.filter(one => one.state === 'ready'))
      if (!snapshot) return
      // Ignore an ApiError: the rules may forbid the operation.
      await sim.world.db
        .tx(tx => requestRestore(tx, snapshot))
        .catch((error: unknown) => {
          if (!(error instanceof ApiError)) throw error
        })
    },
  ],
  [
    'delete the snapshots',
    1,
    async sim => {
      const d = await anyDeployment(sim)
      if (d) await sim.world.db.tx(tx => dropSnapshots(tx, d.id, null))
    },
  ],
  [
    'migrate',
    4,
    async sim => {
      const d = await anyDeployment(sim)
      const vm = d && runningOf(d)
      const target = sim.random.pick(sim.world.hosts.filter(host => host.id !== vm?.hostId))
      if (!d || !vm?.hostId || !target || vm.migrating) return
      const sourceHostId = vm.hostId
      const hosts = await listHosts(sim.world.db, 60)
      const [source, there] = [sourceHostId, target.id].map(id => hosts.find(host => host.id === id))
      const coMoved = await coMovedOf(sim.world.db, vm.id)
      if (!source || !there || moveObstacle(vm, coMoved)) return
      // Ignore an ApiError: the rules may forbid the operation.
      const begun = sim.world.db.tx(async tx => {
        const choice = chooseMove(vm, source, there, await coMovedOf(tx, vm.id))
        if (!('plan' in choice) || !(await reserve(tx, target.id, d))) return
        const { method, withVolumes, volumes } = choice.plan
        const { vcpus, memoryMib, diskMib, projectId, appId } = d
        const ids = { projectId, appId, deploymentId: d.id, vmId: vm.id, sourceHostId, targetHostId: target.id }
        await startMigration(tx, { ...ids, vcpus, memoryMib, diskMib, method, withVolumes }, volumes)
      })
      await begun.catch((error: unknown) => {
        if (!(error instanceof ApiError)) throw error
      })
    },
  ],
  [
    'cancel a migration',
    1,
    async sim => {
      const live = sim.random.pick(
        await sim.world.rows<{ id: string }>(`SELECT id FROM migration WHERE ended_at IS NULL ORDER BY id`),
      )
      if (live) await sim.world.db.tx(tx => cancelMigration(tx, live.id))
    },
  ],
  [
    'a VM crashes',
    2,
    async sim => {
      const host = sim.random.pick(sim.world.hosts)
      const vmId = host && sim.random.pick([...host.vms.keys()].sort())
      if (vmId) host.crash(vmId)
    },
  ],
  ['a host loses power', 1, async sim => sim.random.pick(sim.world.hosts)?.powerCut()],
  [
    'a host becomes unreachable',
    2,
    async sim => {
      const host = sim.random.pick(sim.world.hosts)
      if (host) host.reachable = false
    },
  ],
  [
    'a host becomes reachable',
    4,
    async sim => {
      const host = sim.random.pick(sim.world.hosts.filter(one => !one.reachable))
      if (!host) return
      host.reachable = true
      await sim.heartbeat(host)
    },
  ],
  [
    'drain or cordon',
    1,
    async sim => {
      const host = sim.random.pick(sim.world.hosts)
      const draining = sim.random.chance(0.5)
      if (host) await sim.world.db.tx(tx => cordon(tx, host.id, { cordoned: true, draining }))
    },
  ],
  [
    'uncordon',
    3,
    async sim => {
      const host = sim.random.pick(sim.world.hosts)
      if (host) await sim.world.db.tx(tx => cordon(tx, host.id, { cordoned: false, draining: false }))
    },
  ],
  ['time passes', 4, sim => sim.passTime(80)],
  ['the sweep for lost hosts runs', 4, sim => sim.sweep()],
]
