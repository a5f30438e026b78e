import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { invalidField, invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { createBranch, type NewBranch, startDeletingBranch } from './create.ts'
import { momentOf } from './rules.ts'
import type { databaseOperations } from './schema.ts'
import * as snapshots from './snapshot-store.ts'
import type { Branch, Database } from './store.ts'
import * as branchStore from './branch-store.ts'
import * as store from './store.ts'
import { branchView } from './view.ts'

type BranchOperations = Pick<
  typeof databaseOperations,
  'listDatabaseBranches' | 'createDatabaseBranch' | 'deleteDatabaseBranch' | 'promoteDatabaseBranch'
>

export const branchHandlers = (deps: Deps): Handlers<BranchOperations> => ({
  listDatabaseBranches: {
    read: async ({ project, params }) => {
      const database = await store.inProject(deps.db, project.id, params.id)
      if (!database) throw notFound()
      return (await store.branches(deps.db, database.id)).map(branchView)
    },
  },

  createDatabaseBranch: {
    write: async call => {
      const { body, project, params } = call
      const { name } = body
      const moment = body.at == null ? undefined : body.at === 'latest' ? 'latest' : momentOf(body.at, deps.clock.now())
      if ((moment === undefined) === (body.from_snapshot == null))
        throw invalidField('from_snapshot', 'give either from_snapshot or at')
      return async tx => {
        const database = await store.lock(tx, project.id, params.id)
        const current = database && (await store.current(tx, [database.id])).get(database.id)
        if (!database || !current) throw notFound()
        const of = { databaseId: database.id, projectId: project.id, name }
        const source =
          moment === undefined
            ? await fromSnapshot(tx, database, body.from_snapshot ?? '')
            : { parentId: current.id, fromMoment: moment }
        const made = await createBranch(deps, tx, { ...of, ...source })
        call.audit({
          action: 'database.branch',
          resourceType: 'database',
          resourceId: database.id,
          details: {
            name: database.name,
            branch: name,
            from_snapshot: body.from_snapshot ?? null,
            at: body.at ?? null,
          },
        })
        return branchView(made)
      }
    },
  },

  deleteDatabaseBranch: {
    write: async call => async tx => {
      const { database, branch } = await lockedBranch(tx, call)
      if (branch.isCurrent)
        throw invalidState(`${branch.name} is the current branch. Promote another one first, or delete the database.`)
      await startDeletingBranch(tx, branch.id)
      call.audit({
        action: 'database.branch_delete',
        resourceType: 'database',
        resourceId: database.id,
        details: { name: database.name, branch: branch.name },
      })
      return branchView((await store.branch(tx, branch.id)) ?? branch)
    },
  },

  promoteDatabaseBranch: {
    write: async call => async tx => {
      const { database, branch } = await lockedBranch(tx, call)
      if (!(await branchStore.promote(tx, database.id, branch.id)))
        throw invalidState(`${branch.name} is being deleted.`)
      call.audit({
        action: 'database.promote',
        resourceType: 'database',
        resourceId: database.id,
        details: { name: database.name, branch: branch.name },
      })
      return branchView((await store.branch(tx, branch.id)) ?? branch)
    },
  },
})

async function fromSnapshot(
  tx: Tx,
  database: Database,
  name: string,
): Promise<Pick<NewBranch, 'parentId' | 'fromSnapshotId'>> {
  const snapshot = await snapshots.lock(tx, database.id, name)
  if (!snapshot) throw invalidField('from_snapshot', `the database has no snapshot named "${name}"`)
  if (snapshot.state !== 'ready') throw invalidState(`Snapshot ${name} is ${snapshot.state}.`)
  return { parentId: snapshot.branchId, fromSnapshotId: snapshot.id }
}

interface BranchCall {
  readonly project: { readonly id: string }
  readonly params: { readonly id: string; readonly branch_name: string }
}

/** Finds a branch and locks its database, so that the current branch stays the same until the commit. */
async function lockedBranch(tx: Tx, { project, params }: BranchCall): Promise<{ database: Database; branch: Branch }> {
  const database = await store.lock(tx, project.id, params.id)
  const branches = database ? await store.branches(tx, database.id) : []
  const branch = branches.find(one => one.name === params.branch_name && one.want === 'live')
  if (!database || !branch) throw notFound()
  return { database, branch }
}
