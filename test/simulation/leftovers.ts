/**
 * Most of the simulation lives on what others leave of the cores: it needs many seconds of them and none at a certain
 * moment, while other tests wait for VMs and programs with a deadline.
 */
import { writeFile } from 'node:fs/promises'
import { setPriority } from 'node:os'
import { type Db, statement } from '../../src/db/db.ts'

/** A thirtieth of what others weigh: next to nothing of a busy core, and all of an idle one. */
const nice = 15

/**
 * This program and the backends it uses go after all others from now on. Again before each life: a connection that rested
 * may be a new one. Linux weighs sessions before it weighs the processes in them (`autogroup`: sched(7)), and each backend of
 * PostgreSQL is a session of its own.
 * @param db asked in a transaction, so that the connection for those is there too
 */
export async function goLast(db: Db): Promise<void> {
  const found = await db.tx(tx => tx.rows(backends))
  for (const { pid } of [process, ...found]) await weigh(pid)
}

const backends = statement<{ pid: number }>(
  'simulation.backends',
  'SELECT pid FROM pg_stat_activity WHERE datname = current_database()',
)

/** It is a courtesy: the process may have ended, and not every system weighs sessions. */
async function weigh(pid: number): Promise<void> {
  const ownWeight = async () => setPriority(pid, nice)
  await Promise.allSettled([ownWeight(), writeFile(`/proc/${pid}/autogroup`, String(nice))])
}
