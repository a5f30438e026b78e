/**
 * Measures the time from the commit of an event until the client of an event stream receives it, compared with the
 * times of PostgreSQL's LISTEN, an etcd watch and a NATS subscriber.
 */
import pg from 'pg'
import type { Benchmark, Report } from './benchmark.ts'
import { beside } from './beside.ts'
import { startNats } from './nats.ts'
import { type Plane, startPlane } from './plane.ts'
import { growthOf, planesOf } from './planes.ts'
import { openReaders, type Readers } from './sse-clients.ts'
import { startEtcd } from './etcd.ts'
import { seedTenants } from './seed.ts'
import { inTurns, warm } from './turns.ts'

const rounds = 200
/** Numbers of other open event streams. */
const streams = [5, 50, 500] as const

/** Inserts events into the outbox table, as the product's transactions do. */
export const insertEvents = `INSERT INTO event (project_id, kind, data)
  SELECT $1, 'deployment.status', '{"app_name": "an-app-of-the-bench", "status": "running", "job_id": "job-0123456789abcdef"}' FROM generate_series(1, $2::int)`

export const events: Benchmark = {
  name: 'events',
  goal: 'a committed change reaches the client of an event stream in 2 ms (median), and no later than a change in etcd reaches a watcher',
  covers: ['B11'],
  how: 'Measures the time from the COMMIT that adds an event to the first byte of the event at the client over HTTP, with the control plane as a separate process: NOTIFY, position in the order of events, bus, stream. This alternates with a bare NOTIFY between two connections, with an etcd of one node (JSON gateway, put to watcher), and with nats-server, which stores nothing (publish to one subscriber). To measure the growth, three control planes with 5, 50 and 500 other open streams and as many tenants alternate.',
  reading:
    'The position of an event costs one UPDATE with a durable commit, which the bare NOTIFY does not have; it makes streams resumable. Twenty minutes before the stored run, at a load of 11, the same code took 2.97 ms, 0.96 of etcd.',
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const plane = cleanup.use(await startPlane())
    const listener = new pg.Client({ connectionString: plane.databaseUrl })
    await listener.connect()
    cleanup.defer(() => listener.end())
    await listener.query('LISTEN bench')
    const etcd = await beside(report, cleanup, 'etcd', startEtcd)
    const acts = {
      product: await commitToClient(cleanup, plane),
      notify: async () => {
        const arrived = new Promise(resolve => listener.once('notification', resolve))
        const began = performance.now()
        await plane.sql.query('NOTIFY bench')
        await arrived
        return performance.now() - began
      },
      put: etcd && (() => etcd.putToWatch()),
      nats: await publishToOne(report, cleanup),
    }
    const found = await inTurns(rounds, acts, warm)
    const own = report.samples('commit to client', 'ms', found.product)
    report.samples('NOTIFY to LISTEN', 'ms', found.notify)
    report.verdict('time from commit to client (median), ms', own.median, 2)
    if (found.nats.length > 0) report.samples('NATS, publish to one subscriber', 'ms', found.nats)
    if (found.put.length > 0) {
      const put = report.samples('etcd, put to watcher', 'ms', found.put)
      report.verdict('time from commit to client / time from an etcd put to its watcher', own.median / put.median, 1)
    }
    await growth(report, cleanup)
  },
}

/** Returns the milliseconds from the COMMIT of an event until the client has received it. */
async function commitToClient(cleanup: AsyncDisposableStack, plane: Plane): Promise<() => Promise<number>> {
  const readers = await openReaders(plane.url, ['/v1/workspace/events'], plane.jwt)
  cleanup.defer(() => readers.close())
  let sent = 0
  return async () => {
    await plane.sql.query('BEGIN')
    await plane.sql.query({ name: 'bench.event', text: insertEvents, values: [plane.projectId, 1] })
    await plane.sql.query(`SELECT pg_notify('event', '')`)
    return untilHeard(readers, ++sent, () => plane.sql.query('COMMIT'))
  }
}

async function untilHeard(readers: Readers, events: number, act: () => unknown): Promise<number> {
  const arrived = readers.until(events)
  const began = performance.now()
  await act()
  await arrived
  return performance.now() - began
}

async function publishToOne(
  report: Report,
  cleanup: AsyncDisposableStack,
): Promise<(() => Promise<number>) | undefined> {
  const nats = await beside(report, cleanup, 'NATS', startNats)
  const subscriber = await nats?.subscribe(1)
  if (!nats || !subscriber) return undefined
  cleanup.defer(() => subscriber.close())
  let sent = 0
  return () => untilHeard(subscriber, ++sent, () => nats.publish(1, 'x'.repeat(200)))
}

async function growth(report: Report, cleanup: AsyncDisposableStack): Promise<void> {
  const acts = new Map<Plane, () => Promise<number>>()
  const planes = await planesOf(cleanup, streams, async (plane, at) => {
    await seedTenants(plane.sql, at, 1, 'other')
    const paths = Array.from({ length: at }, () => '/v1/health/stream')
    const others = await openReaders(plane.url, paths, plane.jwt)
    cleanup.defer(() => others.close())
    acts.set(plane, await commitToClient(cleanup, plane))
  })
  const series = { what: 'commit to client', unit: 'ms', along: 'open streams', law: 'flat' } as const
  const cost = async (plane: Plane) => (await acts.get(plane)?.()) ?? Number.NaN
  const grown = await growthOf(report, series, rounds / 2, planes, cost)
  report.verdict('time from commit to client with 500 other open streams / with 5', grown, 1.5)
}
