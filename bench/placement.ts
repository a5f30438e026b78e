/**
 * Measures the rate at which VMs are placed durably on 10, 100 and 1,000 hosts, compared with that of a bare
 * transaction and with Ganeti's in-memory allocator.
 */
import pg from 'pg'
import { pino } from 'pino'
import { createMemoryBus } from '../src/bus/memory.ts'
import { parseControlConfig } from '../src/control/base/config.ts'
import { recordHeartbeat } from '../src/control/hosts/index.ts'
import { connectDb } from '../src/db/connect.ts'
import { until } from '../test/support/wait.ts'
import { type Benchmark, median } from './benchmark.ts'
import { beside } from './beside.ts'
import { startHspace } from './hspace.ts'
import { instantHost } from './instant-host.ts'
import { makeDeployments, makeProject, onlyPlacingRunner, placingSql, replicas } from './placing.ts'
import { startDatabase } from './plane.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 4
const sizes = [10, 100, 1000] as const
/** Number of VMs that are placed in a round, for each number of hosts. */
const vms = 1000
const clients = 8
/** Number of VMs that hspace places in a run. It is small, because hspace takes 20 ms per VM on 100 nodes. */
const simulated = 100

/** A database with hosts, on which placements are measured. */
interface Cell {
  /** Places VMs. @returns placements per second */
  place(): Promise<number>
  /** Runs the bare transaction. @returns transactions per second */
  bare(): Promise<number>
  oversold(): Promise<number>
}

/** Creates a database with this many hosts, on which a workflow step places VMs. */
async function startCell(cleanup: AsyncDisposableStack, hosts: number): Promise<Cell> {
  const url = await startDatabase(cleanup)
  const log = pino({ level: 'fatal' })
  const db = await connectDb({ url, log })
  cleanup.defer(() => db.close())
  const bus = createMemoryBus()
  cleanup.defer(() => bus.close())
  const config = parseControlConfig({ MOTE_SECRET_KEY: 'bench-'.repeat(8), MOTE_HOST_TIMEOUT: '86400' })
  for (let n = 0; n < hosts; n++)
    await recordHeartbeat(db, (await instantHost(bus, `host-${n}`, 10_000)).describe(true), 1)
  const projectId = await makeProject(db)
  let round = 0
  return {
    async place() {
      await makeDeployments(db, projectId, `round-${++round}`, Math.ceil(vms / replicas))
      const { count: before } = await db.one(placingSql.done)
      const count = Math.ceil(vms / replicas) * replicas
      const runner = onlyPlacingRunner({ db, bus, config, log })
      const began = performance.now()
      await runner.start()
      const done = async () => (await db.one(placingSql.done)).count === before + count
      await until(done, { what: 'all VMs to be placed', timeoutMs: 120_000, everyMs: 10 })
      const rate = count / ((performance.now() - began) / 1000)
      await runner.stop()
      return rate
    },
    bare: await bareOf(cleanup, url, hosts),
    oversold: async () => (await db.one(placingSql.oversold)).count,
  }
}

/**
 * Returns a function that measures the minimal transaction of a durable reservation: take capacity of a host if
 * available, insert the VM and its next task.
 */
async function bareOf(cleanup: AsyncDisposableStack, url: string, hosts: number): Promise<() => Promise<number>> {
  const pool = new pg.Pool({ connectionString: url, max: clients })
  cleanup.defer(() => pool.end())
  await pool.query(
    `CREATE TABLE bench_host (id int PRIMARY KEY, free int NOT NULL);
     CREATE TABLE bench_vm (id bigserial PRIMARY KEY, host_id int NOT NULL, data jsonb);
     CREATE TABLE bench_work (id bigint PRIMARY KEY, wake_at timestamptz NOT NULL);
     INSERT INTO bench_host SELECT n, 1000000 FROM generate_series(1, ${hosts}) n`,
  )
  const take = 'UPDATE bench_host SET free = free - 1 WHERE id = $1 AND free > 0'
  const vm = `INSERT INTO bench_vm (host_id, data) VALUES ($1, '{"memory_mib": 512}') RETURNING id`
  const work = 'INSERT INTO bench_work VALUES ($1, now())'
  const place = async (n: number) => {
    const client = await pool.connect()
    const host = 1 + (n % hosts)
    await client.query('BEGIN')
    await client.query({ name: 'b.take', text: take, values: [host] })
    const { rows } = await client.query<{ id: string }>({ name: 'b.vm', text: vm, values: [host] })
    await client.query({ name: 'b.work', text: work, values: [rows[0]?.id] })
    await client.query('COMMIT')
    client.release()
  }
  return async () => {
    const began = performance.now()
    let left = vms
    const worker = async () => {
      while (left-- > 0) await place(left)
    }
    await Promise.all(Array.from({ length: clients }, worker))
    return vms / ((performance.now() - began) / 1000)
  }
}

export const placement: Benchmark = {
  name: 'placement',
  goal: '1,000 durable placements per second on 100 hosts, half the rate of the bare transaction, as fast on 1,000 hosts',
  covers: ['B5'],
  how: `Runs the real engine and scheduler on a durable PostgreSQL, in rounds of ${vms} VMs that all need a host at once, on three databases with 10, 100 and 1,000 hosts in turn. Of the VM workflow, only the step runs that chooses a host, reserves its room and commits. This alternates with the bare transaction by ${clients} connections of node-pg (reserve room, insert the VM, insert its workflow), which chooses nothing, and with Ganeti's hspace, which simulates as many nodes in memory, and fills them with VMs until none fits, trying every node for every VM. A run of hspace places about ${simulated} small VMs and some large ones; its whole run is measured.`,
  reading:
    'The bare transaction gets its host as a parameter, and eight of them share a commit. A placement claims its workflow, reads the VM and the hosts, chooses, and writes the next phase, in a Node process that shares two cores with PostgreSQL. Until 2026-11-21, 22:30, each step was committed by its own statement, and the capabilities of every host were read for every VM, so the ratio to the bare transaction was 0.27. Until 23:40 the time included the next step (claim, load, commit). With 1,000 hosts a placement takes 0.4 ms instead of 0.3: every VM of a batch updates a different host row, while 256 VMs on 10 hosts update ten, and all host rows are read four times a second. Choosing a host takes 9 us of this time with 1,000 hosts, and 2 us with 10 hosts. hspace packs better and writes nothing: it shows the cost of trying every node.',
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const small = await startCell(cleanup, sizes[0])
    const middle = await startCell(cleanup, sizes[1])
    const large = await startCell(cleanup, sizes[2])
    const hspace = await beside(report, cleanup, 'hspace', startHspace)
    const found = await inTurns(rounds, {
      on10: () => small.place(),
      on100: () => middle.place(),
      on1000: () => large.place(),
      bare: () => middle.bare(),
      hspace10: hspace && (() => hspace.placements(10, simulated)),
      hspace100: hspace && (() => hspace.placements(100, simulated)),
    })
    for (const size of sizes) report.samples(`placements, ${size} hosts`, '/s', found[`on${size}`])
    report.samples('the bare transaction, 100 hosts', '/s', found.bare)
    report.atLeast('placements per second on 100 hosts', median(found.on100), 1000)
    report.atLeast('rate of placements / rate of the bare transaction', ratioOfRounds(found.on100, found.bare), 0.5)
    report.verdict('time of a placement on 1,000 hosts / on 10', ratioOfRounds(found.on10, found.on1000), 1.3)
    const oversold = await Promise.all([small, middle, large].map(cell => cell.oversold()))
    report.verdict(
      'hosts that are oversold, or whose reservations are not the sum of their VMs',
      Math.max(...oversold),
      0,
    )
    const points = (own: Readonly<Record<number, readonly number[]>>) =>
      Object.entries(own).map(([at, rates]) => ({ at: Number(at), value: 1000 / median(rates) }))
    const series = { unit: 'ms', along: 'hosts', law: 'flat' } as const
    const own = { 10: found.on10, 100: found.on100, 1000: found.on1000 }
    report.growth({ ...series, what: 'one placement, many placed at once', points: points(own) })
    if (!hspace) return
    for (const size of [10, 100] as const) {
      report.samples(`hspace, ${size} nodes`, '/s', found[`hspace${size}`])
      report.note(
        `rate of placements / rate of hspace, ${size} hosts: ${ratioOfRounds(found[`on${size}`], found[`hspace${size}`]).toFixed(1)}`,
      )
    }
    report.growth({
      unit: 'ms',
      along: 'hosts',
      what: 'hspace',
      points: points({ 10: found.hspace10, 100: found.hspace100 }),
    })
  },
}
