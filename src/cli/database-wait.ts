/** Waits until a managed database, a branch or a snapshot is ready. */
import type { Database, DatabaseBranch, DatabaseSnapshot } from '../client/index.ts'
import type { Call } from './verb.ts'
import { type Shown, waitShown } from './wait-shown.ts'

/** Waits until the database accepts connections. @throws Error if it was deleted or has failed */
export const untilRunning = (call: Call, shown: Shown, id: string): Promise<Database> =>
  waitShown(call, shown, async () => {
    const now = (await call.client.listDatabases()).find(one => one.id === id)
    if (!now) throw new Error('The database was deleted.')
    if (now.status === 'failed') throw new Error(`The database has failed. ${now.message ?? 'See: mote notifications'}`)
    return now.status === 'running' ? now : undefined
  })

/** Waits for a branch. @throws Error if it was deleted or has failed */
export const untilBranchReady = (call: Call, shown: Shown, id: string, name: string): Promise<DatabaseBranch> =>
  waitShown(call, shown, async () => {
    const now = (await call.client.listDatabaseBranches({ id })).find(one => one.branch_name === name)
    if (!now) throw new Error(`The branch ${name} was deleted.`)
    if (now.status === 'failed') throw new Error(`The branch ${name} has failed. See: mote notifications`)
    return now.status === 'ready' ? now : undefined
  })

/** Waits for a snapshot. @throws Error if it was deleted or has failed */
export const untilSnapshotReady = (call: Call, shown: Shown, id: string, name: string): Promise<DatabaseSnapshot> =>
  waitShown(call, shown, async () => {
    const now = (await call.client.listDatabaseSnapshots({ id })).find(one => one.name === name)
    if (!now) throw new Error(`The snapshot ${name} was deleted.`)
    if (now.status === 'failed')
      throw new Error(`The snapshot ${name} has failed. ${now.error ?? 'See: mote notifications'}`)
    return now.status === 'ready' ? now : undefined
  })
