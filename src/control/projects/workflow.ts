/** A project that is being deleted: everything in it goes first, kind by kind in the order given, then its row. */
import type { Db, Tx } from '../../db/db.ts'
import { done, go, workflow, wait } from '../../engine/workflow.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { type Project, project, removeProject } from './store.ts'

/** What a feature keeps in projects and how it is torn down. Later kinds may need earlier ones to be gone. */
export interface ProjectContents {
  readonly name: string
  /** Wishes everything of the project away; runs again and again until nothing remains, so it must be idempotent. */
  deleteAll(tx: Tx, projectId: string): Promise<void>
  /** How many there still are, those under deletion included. */
  remaining(db: Db, projectId: string): Promise<number>
}

export const projectWorkflow = (deps: Pick<Deps, 'db'>, contents: readonly ProjectContents[]) =>
  workflow<Project>()({
    kind: 'project',
    edges: { emptying: ['removing'], removing: [] },
    load: id => project(deps.db, id),
    phases: {
      async emptying({ subject }) {
        for (const { deleteAll, remaining } of contents) {
          if ((await remaining(deps.db, subject.id)) === 0) continue
          // Whatever disappears pokes this machine; the wait is for what does not.
          return wait(seconds(5), tx => deleteAll(tx, subject.id))
        }
        return go('removing', undefined, minutes(5))
      },
      async removing({ subject }) {
        return done(async tx => {
          await removeProject(tx, subject.id)
        })
      },
    },
  })
