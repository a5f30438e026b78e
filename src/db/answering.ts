/**
 * Detects a hung server (a stopped process, a full disk, a lost network), which neither answers nor breaks its
 * connections.
 */
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { clientConfig } from './driver.ts'
import { DbUnavailable } from './errors.ts'

/** A normal start takes half a second and is not probed at all. */
const firstProbeMs = 1_000
const probeMs = 500
const limitMs = 4_000

/**
 * Runs the work, which may wait long on a server that still answers others (a migration, a lock).
 * @throws DbUnavailable `connect` when the server stops answering for some seconds meanwhile; the work continues
 * unobserved
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

/** Resolves with the error when the server hangs; with undefined once the signal has aborted. */
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

/** Also returns true for a server that refuses the connection: then the work fails with its own error. */
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
