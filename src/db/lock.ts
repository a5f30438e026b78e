import pg from 'pg'
import { clientConfig } from './driver.ts'
import { DbUnavailable, fromDriver } from './errors.ts'

/**
 * Runs `work` while a dedicated session holds the advisory lock `name`; returns undefined if another session holds it.
 * The session is dedicated because advisory locks are re-entrant: two holders on one connection would both succeed.
 */
export async function withAdvisoryLock<T>(
  url: string,
  name: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T | undefined> {
  const client = new pg.Client(clientConfig(url, `mote-lock ${name}`.slice(0, 63)))
  const lost = new AbortController()
  const onLoss = () => lost.abort(new DbUnavailable('connection_lost', `the lock ${name} was lost with its connection`))
  client.on('error', onLoss)
  client.on('end', onLoss)
  try {
    if (!(await tryLock(client, name))) return undefined
    return await work(lost.signal)
  } finally {
    // Ending the session releases the lock. It must also end without the lock, or each attempt would leak a session.
    await client.end().catch(() => undefined)
  }
}

async function tryLock(client: pg.Client, name: string): Promise<boolean> {
  try {
    await client.connect()
    const { rows } = await client.query<{ held: boolean }>(
      'SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS held',
      [name],
    )
    return rows[0]?.held === true
  } catch (error) {
    throw fromDriver(error, 'db.lock')
  }
}
