/** From the commit of a change to the client of an event stream: beside LISTEN of PostgreSQL, and a watch of etcd where there is one. */
import pg from 'pg'
import { type Benchmark, median } from './benchmark.ts'
import { startPlane } from './plane.ts'
import { openReaders } from './sse-clients.ts'
import { startEtcd } from './etcd.ts'
import { seedTenants } from './seed.ts'
import { inTurns } from './turns.ts'

const rounds = 200

/** An event of the outbox, as every transaction of the product adds it. */
export const insertEvents = `INSERT INTO event (project_id, kind, data)
  SELECT $1, 'bench', '{"app_name": "an-app-of-the-bench", "status": "running", "job_id": "job-0123456789abcdef"}' FROM generate_series(1, $2::int)`

export const events: Benchmark = {
  name: 'events',
  goal: 'a committed change reaches the client of an event stream in 2 ms (median), and no later than etcd tells a watcher',
  covers: ['B11'],
  how: "Timed from the COMMIT that adds an event to the first byte of it at the client, over HTTP, with the control plane in a process of its own: NOTIFY, position in the table's order, bus, stream. In turns with a bare NOTIFY between two connections, and with an etcd of one node (JSON gateway): put to watcher.",
  reading:
    'The position costs one UPDATE with a durable commit, which the bare NOTIFY does not have; it is what makes streams resumable. Twenty minutes before the stored run, at a load of 11, the same code took 2.97 ms, 0.96 of etcd.',
  async run(report) {
    await using plane = await startPlane()
    await using cleanup = new AsyncDisposableStack()
    const path = '/v1/workspace/events'
    const readers = await openReaders(plane.url, [path], plane.jwt)
    cleanup.defer(() => readers.close())
    const listener = new pg.Client({ connectionString: plane.databaseUrl })
    await listener.connect()
    cleanup.defer(() => listener.end())
    await listener.query('LISTEN bench')
    const etcd = await startEtcd()
    if (typeof etcd !== 'string') cleanup.use(etcd)
    let sent = 0
    const product = async () => {
      await plane.sql.query('BEGIN')
      await plane.sql.query({ name: 'bench.event', text: insertEvents, values: [plane.projectId, 1] })
      await plane.sql.query(`SELECT pg_notify('event', '')`)
      const arrived = readers.until(++sent)
      const began = performance.now()
      await plane.sql.query('COMMIT')
      await arrived
      return performance.now() - began
    }
    const notify = async () => {
      const arrived = new Promise(resolve => listener.once('notification', resolve))
      const began = performance.now()
      await plane.sql.query('NOTIFY bench')
      await arrived
      return performance.now() - began
    }
    const put = async () => (typeof etcd === 'string' ? Number.NaN : etcd.putToWatch())
    const few = await inTurns(rounds, { product, notify, put })
    const own = report.samples('commit to client', 'ms', few.product)
    report.samples('NOTIFY to LISTEN', 'ms', few.notify)
    report.verdict('commit to client (median), ms', own.median, 2)
    if (typeof etcd === 'string') report.note(`etcd: ${etcd}`)
    else
      report.verdict(
        'commit to client / etcd put to watcher',
        own.median / report.samples('etcd, put to watcher', 'ms', few.put).median,
        1,
      )
    await seedTenants(plane.sql, 1000, 1, 'other')
    const paths = Array.from({ length: 500 }, () => '/v1/health/stream')
    const others = await openReaders(plane.url, paths, plane.jwt)
    cleanup.defer(() => others.close())
    const many = await inTurns(rounds, { product })
    report.verdict('with 500 other streams open / with none', median(many.product) / own.median, 1.5)
  },
}
