/** Provisions the VM of a branch: a hidden app with the branch's disks, deployed like any other app. */
import type { Tx } from '../../db/db.ts'
import { createSystemApp, setSystemEnv } from '../apps/index.ts'
import { createDeployment } from '../deployments/index.ts'
import { attachVolume } from '../volumes/index.ts'
import type { DatabaseDeps } from './deps.ts'
import { backupEnv } from './backup-target.ts'
import { configLines, engines, isEngine } from './rules.ts'
import { scramVerifier } from './scram.ts'
import { pageserverOf } from './storage-nodes.ts'
import type { Branch } from './store.ts'
import * as branchStore from './branch-store.ts'

/** Size of the VM's scratch disk, for data outside the volumes: sockets, temporary files of the shell. */
const scratchMib = 256
export const dataMount = '/data'
export const backupMount = '/backup'

export interface Disks {
  readonly dataVolumeId: string | null
  readonly backupVolumeId: string | null
}

/**
 * Returns the image and port of a database VM, by engine and version. The image for a page server is configured by the
 * operator.
 */
export function programOf(deps: Pick<DatabaseDeps, 'config'>, b: Branch): { image: string; port: number } {
  const { engine, version, backend } = b.database
  if (!isEngine(engine)) throw new Error(`BUG: no engine is called "${engine}"`)
  const { image, port } = engines[engine]
  return { image: backend === 'neon' ? deps.config.databases.neonImage : `${image}:${version}`, port }
}

/**
 * Returns the environment of a database VM. It contains only the verifier of the owner's password, never the password.
 */
async function envOf(deps: Pick<DatabaseDeps, 'vault' | 'config'>, b: Branch): Promise<Record<string, string>> {
  const { database } = b
  const env = {
    MOTE_DATABASE: database.name,
    MOTE_PASSWORD_REVISION: String(database.passwordRevision),
    MOTE_VERIFIER: await scramVerifier(deps.vault.open('database.password', b.password)),
    MOTE_SETTINGS: configLines(database.settings),
    MOTE_RESTORE_AT: b.fromMoment ?? '',
    MOTE_REWOUND: b.restores === 0 ? '' : `${b.id}/${b.restores}`,
    MOTE_REWIND_AT: b.restores > b.restored ? (b.restoreMoment ?? '') : '',
  }
  if (database.backend === 'volume') return { ...env, ...backupEnv(deps, b) }
  const { tenantId, tenantGen } = database
  return {
    ...env,
    NEON_TENANT_ID: tenantId,
    NEON_TIMELINE_ID: b.timelineId,
    NEON_GENERATION: String(tenantGen),
    NEON_PAGESERVER: pageserverOf(deps.config.databases, database.storageNode),
  }
}

/** Creates the app of a branch with its disks and its first VM, in one commit. */
export async function provision(deps: DatabaseDeps, tx: Tx, b: Branch, disks: Disks): Promise<void> {
  const { projectId } = b
  const app = await createSystemApp(deps, tx, {
    projectId,
    owner: 'database',
    ownerId: b.id,
    port: programOf(deps, b).port,
    env: await envOf(deps, b),
  })
  const mounts = [
    [disks.dataVolumeId, dataMount],
    [disks.backupVolumeId, backupMount],
  ] as const
  for (const [volumeId, mountPoint] of mounts)
    if (volumeId)
      await attachVolume(tx, { projectId, volumeId, appId: app.id, mountPoint, accessMode: 0, by: 'platform' })
  if (!(await branchStore.provision(tx, b.id, { appId: app.id, ...disks }, b.database)))
    throw new Error(`BUG: branch ${b.id} has an app already`)
  await deploy(deps, tx, b, app.id)
}

/** Starts a VM for the branch, with the current size and settings. The previous VM must be gone. */
export async function startVm(deps: DatabaseDeps, tx: Tx, b: Branch): Promise<void> {
  if (b.appId === null) throw new Error(`BUG: branch ${b.id} has no app to start`)
  await setSystemEnv(deps, tx, b.appId, await envOf(deps, b))
  await branchStore.runsRevision(tx, b.id, b.database)
  await deploy(deps, tx, b, b.appId)
}

async function deploy(deps: DatabaseDeps, tx: Tx, b: Branch, appId: string): Promise<void> {
  const { vcpus, memoryMib } = b.database
  await createDeployment(tx, {
    projectId: b.projectId,
    appId,
    ...programOf(deps, b),
    hypervisor: 0,
    vcpus,
    memoryMib,
    diskMib: scratchMib,
    replicas: 1,
    ipv6Prefix: b.ipv6Prefix,
    triggerSource: 'api' as const,
  })
}
