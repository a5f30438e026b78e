/** Counts the resources that an installation holds, as reported by the kernel, PostgreSQL, NATS and its metrics. */
import { readdir, readFile, readlink } from 'node:fs/promises'
import { get } from 'node:http'
import { text } from 'node:stream/consumers'
import type pg from 'pg'
import type { Installation, RunningProgram } from './installation.ts'

/** Number of resources by name, such as `control-0: sockets`. */
export type Counts = Readonly<Record<string, number>>

/** Counts all resources. @param observer a database session that is not counted, because it uses another database */
export async function countAll(installation: Installation, observer: pg.Client): Promise<Counts> {
  const parts = await Promise.all([
    ...installation.programs.map(countProgram),
    countNats(installation.natsUrl),
    countSessions(installation.databaseUrl, observer),
  ])
  return Object.assign({}, ...parts)
}

async function countProgram({ name, pid, metricsUrl, runs }: RunningProgram): Promise<Counts> {
  if (!runs()) throw new Error(`${name} has ended`)
  // Count descriptors before the metrics are read, which opens a socket.
  const files = await readdir(`/proc/${pid}/fd`)
  const links = await Promise.all(files.map(file => readlink(`/proc/${pid}/fd/${file}`).catch(() => '')))
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return {
    [`${name}: descriptors`]: files.length,
    [`${name}: sockets`]: links.filter(link => link.startsWith('socket:')).length,
    ...(metricsUrl === undefined ? {} : countNode(name, await ask(metricsUrl))),
    [`${name}: threads`]: numberIn(status, /^Threads:\s+(\d+)$/m),
    [`${name}: MiB`]: Math.round(numberIn(status, /^VmRSS:\s+(\d+) kB$/m) / 1024),
  }
}

const countNode = (name: string, metrics: string): Counts => ({
  [`${name}: timers`]: Number(/^mote_nodejs_active_resources\{type="Timeout"\} (\d+)$/m.exec(metrics)?.[1] ?? 0),
  [`${name}: heap MiB`]: Math.round(numberIn(metrics, /^mote_nodejs_heap_size_used_bytes (\S+)$/m) / 2 ** 20),
})

async function countNats(url: string): Promise<Counts> {
  const [server, streams] = await Promise.all([ask(`${url}/varz`), ask(`${url}/jsz`)])
  return {
    'nats: connections': numberIn(server, /"connections": (\d+)/),
    'nats: subscriptions': numberIn(server, /"subscriptions": (\d+)/),
    'nats: consumers': numberIn(streams, /"consumers": (\d+)/),
  }
}

async function countSessions(databaseUrl: string, observer: pg.Client): Promise<Counts> {
  const { rows } = await observer.query<{ pooled: number; other: number }>(
    `SELECT count(*) FILTER (WHERE application_name = ANY ($2))::int AS pooled,
            count(*) FILTER (WHERE application_name <> ALL ($2))::int AS other
     FROM pg_stat_activity WHERE datname = $1`,
    [new URL(databaseUrl.replace('@/', '@socket/')).pathname.slice(1), ['mote', 'mote-tx']],
  )
  // Sessions outside of pools are for locks, listeners and migrations.
  return { 'postgresql: sessions in pools': rows[0]?.pooled ?? 0, 'postgresql: other sessions': rows[0]?.other ?? 0 }
}

const numberIn = (said: string, pattern: RegExp): number => {
  const found = pattern.exec(said)?.[1]
  if (found === undefined) throw new Error(`there is no ${pattern} in ${said.slice(0, 500)}`)
  return Number(found)
}

/** Gets a URL on a connection of its own, which the response closes, so that measuring does not add to the counts. */
function ask(url: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  get(url, { agent: false, headers: { connection: 'close' }, timeout: 10_000 }, answer =>
    text(answer).then(resolve, reject),
  )
    .on('timeout', () => reject(new Error(`${url} does not answer`)))
    .on('error', reject)
  return promise
}
