/** The workflow that deletes an app: removes its deployments, and finally its row. */
import { done, workflow, wait } from '../../engine/workflow.ts'
import { poke } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { removeDeployment } from '../deployments/index.ts'
import * as store from './store.ts'
import type { App } from './store.ts'

export const appWorkflow = (deps: Pick<Deps, 'db'>) =>
  workflow<App>()({
    kind: 'app',
    edges: { emptying: [] },
    load: id => store.byId(deps.db, id),
    phases: {
      async emptying({ subject: app }) {
        const deployments = await store.deployments(deps.db, app.id)
        if (deployments.length > 0)
          return wait(minutes(1), async tx => {
            for (const id of deployments) await removeDeployment(tx, id)
          })
        return done(async tx => {
          await store.remove(tx, app.id)
          await poke(tx, 'project', app.projectId)
        })
      },
    },
  })
