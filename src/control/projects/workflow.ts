/** The workflow that deletes a project: first its resources, kind by kind in a given order, then its row. */
import type { Db, Tx } from '../../db/db.ts'
import { done, go, workflow, wait } from '../../engine/workflow.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { type Project, project, removeProject } from './store.ts'

/**
 * A kind of resource in projects, and how to delete it. Kinds are deleted in the order of their list: when one is
 * deleted, all resources of the earlier kinds are gone.
 */
export interface ProjectContents {
  readonly name: string
  /** Marks all resources of the project for deletion. Runs repeatedly until none remain, so it must be idempotent. */
  deleteAll(tx: Tx, projectId: string): Promise<void>
  /** Returns the number of the project's remaining resources of this kind, including those being deleted. */
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
          // Every deleted resource pokes this workflow. The time limit of the wait is for lost pokes.
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
