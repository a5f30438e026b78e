/** Creates databases and branches: writes rows and creates workflows in the caller's transaction. */
import type { Tx } from '../../db/db.ts'
import { uniqueViolation } from '../../db/errors.ts'
import { createWorkflow, poke } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import { assertSizesFit } from '../deployments/index.ts'
import { invalidState, nameTaken } from '../http/errors.ts'
import { assertWithin, lockLimits } from '../projects/index.ts'
import type { DatabaseDeps } from './deps.ts'
import { newStorageId } from './neon-storage.ts'
import { newPassword } from './password.ts'
import type { DatabaseShape } from './rules.ts'
import { takeSpare } from './spare-claim.ts'
import { chooseNode, storageNodes } from './storage-nodes.ts'
import { furnish } from './volume-storage.ts'
import type { Branch } from './store.ts'
import * as branchStore from './branch-store.ts'
import * as store from './store.ts'

export const mainBranch = 'main'
const mostBranches = 20
const startMs = minutes(30)

/**
 * Creates the database and its first branch with a VM.
 * @throws ApiError 403 `plan_limit_exceeded`, 409 `name_taken`
 */
export async function createDatabase(
  deps: DatabaseDeps,
  tx: Tx,
  request: DatabaseShape & { readonly projectId: string; readonly name: string },
): Promise<string> {
  const { projectId, name } = request
  const limits = await lockLimits(tx, projectId)
  assertWithin(limits, 'maxDatabases', await store.count(tx, projectId))
  const id = newId()
  const password = newPassword(deps)
  const { backend } = deps.config.databases
  try {
    const storageNode = backend === 'neon' ? await nodeFor(deps, tx) : null
    await store.insert(tx, { ...request, id, backend, password, tenantId: newStorageId(), storageNode })
  } catch (cause) {
    if (uniqueViolation(cause, 'database_name')) throw nameTaken('database', name)
    throw cause
  }
  await createBranch(deps, tx, { databaseId: id, projectId, name: mainBranch, isCurrent: true })
  return id
}

async function nodeFor(deps: DatabaseDeps, tx: Tx): Promise<number> {
  const nodes = storageNodes(deps.config.databases)
  const ids = nodes.map(({ id }) => id)
  return chooseNode(nodes, await store.tenantCounts(tx, ids))
}

export interface NewBranch {
  readonly databaseId: string
  readonly projectId: string
  readonly name: string
  readonly kind?: Branch['kind']
  readonly isCurrent?: boolean
  readonly parentId?: string
  readonly fromSnapshotId?: string
  /** Point in time of the parent from which the branch starts: `latest`, or an instant in PostgreSQL's format. */
  readonly fromMoment?: string
}

/**
 * Creates a branch. If the branch starts from a snapshot that has a spare branch, that spare becomes the requested
 * branch.
 * @throws ApiError 403 `plan_limit_exceeded`, 409 `name_taken`, `invalid_state`
 */
export async function createBranch(deps: DatabaseDeps, tx: Tx, request: NewBranch): Promise<Branch> {
  const { databaseId, projectId, name, fromMoment = null } = request
  const others = await store.branches(tx, databaseId)
  if (others.length >= mostBranches)
    throw invalidState(`A database can have at most ${mostBranches} branches. Delete one first.`)
  const id = newId()
  const source = { parentId: request.parentId ?? null, fromSnapshotId: request.fromSnapshotId ?? null, fromMoment }
  const { kind = 'user', isCurrent = false } = request
  const snapshotId = kind === 'user' ? request.fromSnapshotId : undefined
  try {
    const spareId = snapshotId && (await takeSpare(tx, { databaseId, snapshotId, name }))
    if (spareId) return await found(tx, spareId)
    await branchStore.addBranch(tx, {
      id,
      databaseId,
      projectId,
      name,
      kind,
      isCurrent,
      timelineId: newStorageId(),
      ...source,
    })
  } catch (cause) {
    if (uniqueViolation(cause, 'branch_name')) throw nameTaken('branch of this database', name)
    throw cause
  }
  const made = await found(tx, id)
  await assertSizesFit(tx, projectId, id, made.database, 1)
  const atOnce = made.database.backend === 'volume' && fromMoment === null
  if (atOnce) await furnish(deps, tx, made)
  await createWorkflow(tx, 'database', id, atOnce ? 'starting' : 'preparing', { deadlineMs: startMs })
  return found(tx, id)
}

async function found(tx: Tx, id: string): Promise<Branch> {
  const made = await store.branch(tx, id)
  if (!made) throw new Error('BUG: a branch that was just inserted does not exist')
  return made
}

/** Marks the database and all its branches for deletion. Idempotent. */
export async function startDeletingDatabase(tx: Tx, id: string): Promise<void> {
  await store.startDeleting(tx, id)
  for (const branchId of await store.branchIdsOf(tx, id)) await poke(tx, 'database', branchId)
}

export async function startDeletingBranch(tx: Tx, id: string): Promise<void> {
  if (await branchStore.markBranchForDeletion(tx, id)) await poke(tx, 'database', id)
}
