/**
 * Every operation that changes a deployment, a volume, a database or a snapshot ("verb") either is tested in every
 * state of the resource, or has a reason why its effect cannot get lost.
 */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { allOperations } from '../src/control/operations.ts'
import type { Operation } from '../src/control/http/operation.ts'

const deployments = 'src/control/deployments/verbs.test.ts'
const volumes = 'src/control/volumes/verbs.test.ts'
const vmSnapshots = 'src/control/vm-operations/verbs.test.ts'
const databases = 'src/control/databases/verbs.test.ts'

/** The file that tests each operation, and a text in the file that names it. */
const tested: Readonly<Record<string, readonly [file: string, text: string]>> = {
  activateDeployment: [deployments, 'activate:'],
  stopDeployment: [deployments, 'stop:'],
  cancelDeployment: [deployments, 'cancel:'],
  pauseDeployment: [deployments, 'pause:'],
  resumeDeployment: [deployments, 'resume:'],
  deleteDeployment: [deployments, 'delete:'],
  createVmSnapshot: [vmSnapshots, 'createVmSnapshot'],
  restoreVmSnapshot: [vmSnapshots, 'restoreVmSnapshot'],
  deleteVmSnapshot: [vmSnapshots, 'deleteVmSnapshot'],
  forkVmSnapshot: [vmSnapshots, 'forkVmSnapshot'],
  createVolume: [volumes, 'createVolume'],
  updateVolume: [volumes, 'growVolume'],
  deleteVolume: [volumes, 'deleteVolume'],
  createVolumeSnapshot: [volumes, 'createVolumeSnapshot'],
  restoreVolume: [volumes, 'restoreVolume'],
  cloneVolume: [volumes, 'cloneVolume'],
  deleteVolumeSnapshot: [volumes, 'deleteVolumeSnapshot'],
  ...Object.fromEntries(
    [
      ...['createDatabase', 'updateDatabase', 'deleteDatabase', 'rotateDatabasePassword', 'createTunnelPassword'],
      ...['createDatabaseBranch', 'promoteDatabaseBranch', 'deleteDatabaseBranch', 'createDatabaseSnapshot'],
      ...['deleteDatabaseSnapshot', 'restoreDatabase', 'restoreDatabaseTo'],
      ...['setDatabaseBackupTarget', 'deleteDatabaseBackupTarget'],
    ].map(id => [id, [databases, id] as const]),
  ),
  moveVolume: ['src/control/moves/volumes.test.ts', 'startMove'],
  cancelVolumeMove: ['src/control/moves/volumes.test.ts', 'cancelMove'],
  startMigration: ['src/control/migrations/migration.test.ts', 'crash matrix of a migration'],
  cancelMigration: ['src/control/migrations/migration.test.ts', 'cancel'],
}

/** Operations that return the agent's response, so the caller knows whether they took effect. */
const answeredByHost = [
  ...['execInVm', 'openVmSession', 'signalVmSession', 'closeVmSession'],
  ...['writeVmFile', 'createVmDirectory', 'moveVmFile', 'removeVmFile'],
]
/** Operations that only store a row, which later deployments or sweeps read. */
const onlySettings = ['attachVolume', 'detachVolume', 'setVolumeSchedule']
/** Operations that change the desired state of a VM, which is sent to its host until the host has applied it. */
const desiredStates = ['attachRuntimeVolume', 'detachRuntimeVolume', 'setBalloon']

const isVerb = ({ method, path }: Operation) =>
  method !== 'GET' && /\/deployments\/\{|\/volumes\b|\/databases\b|\/snapshots\b/.test(path)

it('every operation that changes a deployment, volume, database or snapshot is tested in every state or exempt', () => {
  const verbs = Object.entries(allOperations).flatMap(([id, operation]) => (isVerb(operation) ? [id] : []))
  const known = [...Object.keys(tested), ...answeredByHost, ...onlySettings, ...desiredStates]
  expect(verbs.length).toBeGreaterThan(40)
  expect(known.toSorted()).toEqual(verbs.toSorted())
})

it.each(Object.entries(tested))('the file that tests %s contains its name', (_id, [file, text]) => {
  expect(readFileSync(file, 'utf8')).toContain(text)
})
