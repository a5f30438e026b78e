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

/** People are told of what they made; of what the platform makes for itself they are not. */
export async function reportReady(tx: Tx, b: Branch): Promise<void> {
  if (b.kind === 'user')
    await notify(tx, {
      ...about(b),
      kind: 'database.ready',
      title: `${titleOf(b)} accepts connections`,
      body: `How to connect is on its page, or: mote db connect ${b.databaseName}`,
    })
}

export async function reportFailed(tx: Tx, b: Branch, reason: string): Promise<void> {
  if (b.kind === 'user')
    await notify(tx, { ...about(b), kind: 'database.failed', title: `${titleOf(b)} has failed`, body: reason })
}
