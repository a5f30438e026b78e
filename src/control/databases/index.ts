/** Managed databases: branches, backups, snapshots, SSH tunnels and page servers. */
import type { ProjectContents } from '../projects/index.ts'
import { startDeletingDatabase } from './create.ts'
import * as store from './store.ts'

export { databaseBackups } from './backups.ts'
export { branchWorkflow } from './branch-workflow.ts'
export { databaseDrills } from './drills.ts'
export { databaseFeature } from './routes.ts'
export { databaseSnapshotWorkflow } from './snapshot-workflow.ts'
export { databaseSpares } from './spares.ts'
export { databaseLogins, startTunnelReceiver } from './tunnels.ts'
export { upcallFeature } from './upcalls.ts'

/**
 * When a project is deleted, its databases are deleted before its apps and volumes, because apps and volumes implement
 * them.
 */
export const databaseContents: ProjectContents = {
  name: 'databases',
  async deleteAll(tx, projectId) {
    for (const id of await store.idsInProject(tx, projectId)) await startDeletingDatabase(tx, id)
  },
  remaining: (db, projectId) => store.remaining(db, projectId),
}
