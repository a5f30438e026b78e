/** Random operations of users on volumes, and random writes of guests. */
import * as deployments from '../../src/control/deployments/store.ts'
import { ApiError } from '../../src/control/http/errors.ts'
import { holdSnapshot, startFork } from '../../src/control/vm-operations/index.ts'
import { createSnapshot } from '../../src/control/vms/index.ts'
import {
  attachmentsOfApp,
  attachVolume,
  cloneVolume,
  createVolume,
  createVolumeSnapshot,
  deleteVolume,
  deleteVolumeSnapshot,
  detachVolume,
  lockRetained,
  restoreVolume,
} from '../../src/control/volumes/index.ts'
import { cancelMove, startMove } from '../../src/control/moves/index.ts'
import type { Tx } from '../../src/db/db.ts'
import type { Operation } from './operations.ts'
import type { Simulation } from './simulation.ts'

const anyVolume = async (sim: Simulation) =>
  sim.random.pick(await sim.world.rows<{ id: string }>(`SELECT id FROM volume WHERE want = 'present' ORDER BY id`))?.id
const anySnapshot = async (sim: Simulation) =>
  sim.random.pick(
    await sim.world.rows<{ id: string; volumeId: string }>(
      `SELECT id, volume_id AS "volumeId" FROM volume_snapshot WHERE want = 'present' ORDER BY id`,
    ),
  )
/** Runs `act` in a transaction, and ignores errors of the API, because the rules may forbid the operation. */
const tryTo = (sim: Simulation, act: (tx: Tx) => Promise<unknown>) =>
  sim.world.db.tx(act).catch((error: unknown) => {
    if (!(error instanceof ApiError)) throw error
  })

async function keepOneWithVolumes(sim: Simulation): Promise<void> {
  const having = await sim.world.rows<{ id: string; deploymentId: string }>(
    `SELECT v.id, v.deployment_id AS "deploymentId" FROM vm v WHERE v.want = 'running' AND v.seen_state = 'running'
       AND EXISTS (SELECT FROM vm_disk k WHERE k.vm_id = v.id AND k.seen_state = 'attached') ORDER BY v.id`,
  )
  const chosen = sim.random.pick(having)
  const d = chosen && (await deployments.byId(sim.world.db, chosen.deploymentId))
  const vm = d?.vms.find(one => one.id === chosen?.id)
  if (!d || !vm?.hostId) return
  const of = { deploymentId: d.id, vmId: vm.id, hostId: vm.hostId }
  await sim.world.db.tx(tx => createSnapshot(tx, { ...d, ...of, kind: 'user', name: `k${sim.history.length}` }))
}

async function fork(sim: Simulation, found: { readonly name: string; readonly deploymentId: string }): Promise<void> {
  const d = await deployments.byId(sim.world.db, found.deploymentId)
  if (!d || sim.apps.length >= 6) return
  const app = await sim.world.app({ minReplicas: 1 })
  await sim.world.rows(`UPDATE app SET max_replicas = 1 WHERE id = $1 RETURNING id`, app.id)
  sim.apps.push({ ...app, isAlone: true })
  await tryTo(sim, async tx => {
    const snapshot = await holdSnapshot(tx, d.id, found.name)
    if (snapshot) await startFork(tx, d, snapshot, await lockRetained(tx, snapshot), { app, replicas: 1 })
  })
}

export const volumeOperations: readonly Operation[] = [
  [
    'create a volume and attach it',
    2,
    async sim => {
      const app = sim.random.pick(sim.apps.filter(one => one.isAlone))
      if (!app) return
      const { projectId } = sim.world
      await tryTo(sim, async tx => {
        const volume = await createVolume(tx, { projectId, name: `v${sim.history.length}`, sizeMib: 64 })
        const request = { projectId, volumeId: volume.id, appId: app.id, accessMode: 0, by: 'user' } as const
        await attachVolume(tx, { ...request, mountPoint: '/data' })
      })
    },
  ],
  [
    'attach a volume to another app',
    1,
    async sim => {
      const app = sim.random.pick(sim.apps)
      const volumeId = await anyVolume(sim)
      if (!app || !volumeId) return
      const accessMode = sim.random.chance(0.5) && app.isAlone ? 0 : 1
      const { projectId } = sim.world
      await tryTo(sim, tx =>
        attachVolume(tx, { projectId, volumeId, appId: app.id, mountPoint: '/more', accessMode, by: 'user' }),
      )
    },
  ],
  [
    'detach',
    2,
    async sim => {
      const app = sim.random.pick(sim.apps)
      if (!app) return
      await tryTo(sim, async tx => {
        const attachment = sim.random.pick(await attachmentsOfApp(tx, app.id))
        if (attachment) await detachVolume(tx, attachment)
      })
    },
  ],
  [
    'take a snapshot of a volume',
    1,
    async sim => {
      const id = await anyVolume(sim)
      if (id) await tryTo(sim, tx => createVolumeSnapshot(tx, id, { name: `s${sim.history.length}` }))
    },
  ],
  [
    'restore a volume',
    1,
    async sim => {
      const snapshot = await anySnapshot(sim)
      if (snapshot) await tryTo(sim, tx => restoreVolume(tx, snapshot.volumeId, snapshot.id))
    },
  ],
  [
    'clone a volume',
    1,
    async sim => {
      const snapshot = await anySnapshot(sim)
      const { projectId } = sim.world
      if (snapshot) await tryTo(sim, tx => cloneVolume(tx, snapshot.id, { projectId, name: `c${sim.history.length}` }))
    },
  ],
  [
    'delete a snapshot of a volume',
    1,
    async sim => {
      const snapshot = await anySnapshot(sim)
      if (snapshot) await tryTo(sim, tx => deleteVolumeSnapshot(tx, snapshot.id))
    },
  ],
  [
    'delete a volume',
    1,
    async sim => {
      const id = await anyVolume(sim)
      if (id) await tryTo(sim, tx => deleteVolume(tx, id))
    },
  ],
  [
    'move a volume',
    2,
    async sim => {
      const id = await anyVolume(sim)
      const target = sim.random.pick(sim.world.hosts)
      // Skip volumes that are attached or being attached: these move with their VM.
      const held = await sim.world.rows(`SELECT vm_id AS id FROM vm_disk WHERE volume_id = $1`, id ?? null)
      if (!id || !target || held.length > 0) return
      await tryTo(sim, tx => startMove(tx, { volumeId: id, targetHostId: target.id, targetPool: 'local' }))
    },
  ],
  [
    'cancel the move of a volume',
    1,
    async sim => {
      const live = await sim.world.rows<{ id: string }>(
        `SELECT id FROM volume_move WHERE ended_at IS NULL AND migration_id IS NULL ORDER BY id`,
      )
      const move = sim.random.pick(live)
      if (move) await tryTo(sim, tx => cancelMove(tx, move.id))
    },
  ],
  [
    'a guest writes',
    3,
    async sim => {
      for (const host of sim.world.hosts)
        for (const vm of host.vms.values())
          for (const disk of vm.desired.spec.disks) {
            const volume = host.storage.volumes.get(disk.volumeId)
            const has = vm.disks.some(one => one.volumeId === disk.volumeId && one.state === 'attached')
            if (volume && has && !disk.readOnly && vm.state === 'running')
              host.storage.write(disk.volumeId, `written ${sim.history.length}`)
          }
    },
  ],
  [
    'snapshot or fork a VM with volumes',
    3,
    async sim => {
      const all = await sim.world.rows<{ name: string; deploymentId: string }>(
        `SELECT name, deployment_id AS "deploymentId" FROM vm_snapshot
         WHERE kind = 'user' AND want = 'present' AND state = 'ready' AND disks <> '[]'::jsonb ORDER BY id`,
      )
      const found = sim.random.pick(all)
      await (found ? fork(sim, found) : keepOneWithVolumes(sim))
    },
  ],
]
