/**
 * Detects a hung PostgreSQL server (a stopped process, a full disk, a lost network), which neither responds nor closes
 * its connections.
 */
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { clientConfig } from './driver.ts'
import { DbUnavailable } from './errors.ts'

/** Delay before the first probe. A normal start of the program takes half a second, so it sends no probe. */
const firstProbeMs = 1_000
const probeMs = 500
const limitMs = 4_000

/**
 * Runs `work` and meanwhile probes the server with a second connection. For work that may wait long although the server
 * is healthy (a migration, a lock).
 * @throws DbUnavailable `connect` when the server does not respond to a probe within some seconds; the work then
 * continues in the background
 */
export async function whileAnswering<T>(url: string, work: () => Promise<T>): Promise<T> {
  const end = new AbortController()
  const hangs = Promise.withResolvers<never>()
  void watch(url, end.signal).then(reason => reason && hangs.reject(reason))
  try {
    return await Promise.race([work(), hangs.promise])
  } finally {
    end.abort()
  }
}

/** Probes the server. Resolves with the error once it hangs; with undefined after the signal has aborted. */
async function watch(url: string, signal: AbortSignal): Promise<DbUnavailable | undefined> {
  const pause = (ms: number) => delay(ms, undefined, { signal, ref: false }).catch(() => undefined)
  for (await pause(firstProbeMs); !signal.aborted; await pause(probeMs)) {
    if (await answers(url)) continue
    return new DbUnavailable(
      'connect',
      `the database did not answer within ${limitMs / 1000} s: is its server hung or overloaded?`,
    )
  }
  return undefined
}

/**
 * Returns whether the server responds to a probe. Also true for a server that refuses the connection, because the work
 * itself then fails with an error.
 */
async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ ...clientConfig(url, 'mote-probe'), connectionTimeoutMillis: 2 * limitMs })
  client.on('error', () => undefined)
  const asked = (async () => {
    await client.connect()
    await client.query('SELECT 1')
  })()
  const late = new AbortController()
  const inTime = await Promise.race([
    asked.then(
      () => true,
      () => true,
    ),
    delay(limitMs, false, { signal: late.signal }).catch(() => false),
  ])
  late.abort()
  void client.end().catch(() => undefined)
  return inTime
}
