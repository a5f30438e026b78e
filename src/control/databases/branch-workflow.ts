/**
 * The workflow of a database branch: creates its VM and disks, waits until a client can connect, stops and starts it
 * for changes that need a restart, restores it, and finally removes it.
 */
import { workflow } from '../../engine/workflow.ts'
import * as phases from './branch-phases.ts'
import type { DatabaseDeps } from './deps.ts'
import * as restores from './restore-phases.ts'
import { storages } from './storage.ts'
import type { Branch } from './store.ts'
import * as store from './store.ts'

export const branchWorkflow = (given: DatabaseDeps) => {
  const deps: phases.BranchDeps = { ...given, storageOf: storages(given) }
  return workflow<Branch>()({
    kind: 'database',
    edges: {
      preparing: ['starting', 'failing', 'deleting'],
      starting: ['running', 'halting', 'failing', 'deleting'],
      running: ['standing', 'halting', 'failing', 'deleting'],
      standing: ['starting', 'deleting'],
      halting: ['starting', 'keeping', 'resting', 'deleting'],
      keeping: ['rewinding', 'replaying', 'starting', 'deleting'],
      rewinding: ['starting', 'deleting'],
      replaying: ['running', 'undoing', 'deleting'],
      undoing: ['starting', 'failing', 'deleting'],
      resting: ['starting', 'keeping', 'deleting'],
      failing: ['halting', 'deleting'],
      deleting: [],
    },
    load: id => store.branch(deps.db, id),
    preempt: b => (b.want === 'deleted' || b.databaseWant === 'deleted' ? 'deleting' : undefined),
    phases: {
      preparing: step => phases.preparing(deps, step),
      starting: step => phases.starting(deps, step),
      running: step => phases.running(deps, step),
      standing: phases.standing,
      halting: step => phases.halting(deps, step),
      keeping: step => restores.keeping(deps, step),
      rewinding: step => restores.rewinding(deps, step),
      replaying: step => restores.replaying(deps, step),
      undoing: step => restores.undoing(deps, step),
      resting: step => phases.resting(deps, step),
      failing: phases.failing,
      deleting: step => phases.deleting(deps, step),
    },
  })
}
