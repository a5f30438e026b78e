import type { Tx } from '../../db/db.ts'
import { notify } from '../notifications/index.ts'
import type { Branch } from './store.ts'

const titleOf = (b: Branch) => (b.isCurrent ? b.databaseName : `${b.databaseName}, branch ${b.name},`)
const about = (b: Branch) => ({
  projectId: b.projectId,
  entityName: b.databaseName,
  resourceId: b.databaseId,
  route: `/databases/${b.databaseId}`,
})

/** Notifies the members of a project about their own branches, but not about hidden branches of the platform. */
export async function reportReady(tx: Tx, b: Branch): Promise<void> {
  if (b.kind === 'user')
    await notify(tx, {
      ...about(b),
      kind: 'database.ready',
      title: `${titleOf(b)} accepts connections`,
      body: `Its page shows how to connect, or run: mote db connect ${b.databaseName}`,
    })
}

export async function reportFailed(tx: Tx, b: Branch, reason: string): Promise<void> {
  if (b.kind === 'user')
    await notify(tx, { ...about(b), kind: 'database.failed', title: `${titleOf(b)} has failed`, body: reason })
}
