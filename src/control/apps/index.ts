/** Apps: settings, environment variables, scale and deletion. */
import type { ProjectContents } from '../projects/index.ts'
import { startDeletingApp } from './end.ts'
import * as store from './store.ts'

export { createSystemApp, prepareApp, setSystemEnv } from './create.ts'
export { startDeletingApp } from './end.ts'
export { appWorkflow } from './workflow.ts'
export { appFeature } from './routes.ts'
export { appFileFeature } from './file-routes.ts'

export const appContents: ProjectContents = {
  name: 'apps',
  async deleteAll(tx, projectId) {
    for (const id of await store.idsInProject(tx, projectId)) await startDeletingApp(tx, id)
  },
  remaining: (db, projectId) => store.remaining(db, projectId),
}
