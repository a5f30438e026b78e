/**
 * Measures the time from the request for a managed database until it answers SELECT 1, as its status reports (a client
 * in the VM has signed in as the owner). The VM is real; the image and its base (the read-only file system) already
 * exist. Branches are measured twice: from the newest snapshot, for which a spare branch exists, and from an older
 * snapshot without a spare branch.
 */
import { mkdir, symlink } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { pino } from 'pino'
import { buildPostgresImage } from '../src/agent/image/postgres/build.ts'
import { recipeDigest } from '../src/agent/image/postgres/recipe.ts'
import { connectDb } from '../src/db/connect.ts'
import { type Db, statement } from '../src/db/db.ts'
import { runningEmbeddedUrl } from '../src/db/embedded.ts'
import { hasProgram } from '../src/lib/programs.ts'
import type { Benchmark } from './benchmark.ts'
import { type BenchCloud, startBenchCloud } from './cloud.ts'

const rounds = 3

export const database: Benchmark = {
  name: 'database',
  goal: 'create to SELECT 1 in at most 5 s with the image cached, branch of the newest snapshot to SELECT 1 in at most 1 s',
  how: `Through the API of a complete installation, the benchmark does this ${rounds} times: it creates a database, a branch of the newest snapshot and a branch of an older one. The time is measured from the request until the status is running or the connection is available.`,
  reading:
    'The newest snapshot has a spare branch. Of the 1.4 s for a branch of an older snapshot, 0.15 s are the clone of its volume and the request to its host, 0.15 s QEMU and the template of the image, 0.1 s resuming the guest, 0.3 s detecting and mounting two volumes, 0.35 s PostgreSQL and its recovery, and 0.4 s the first client. From the guest on, the time is CPU: without KVM, QEMU translates the code of the guest. Resuming a memory snapshot with a running server takes 1.1 to 2.3 s, because snapshots do not contain translated code (docs/decisions/0053-spare-branches.md). Until 2026-11-22, 09:40, a branch of an older snapshot took 2.4 s: snapshot copies allocated the whole volume including zeros, and each clone read them (docs/decisions/0013-volumes.md).',
  async unable() {
    if (process.getuid?.() !== 0) return 'the image is made in a chroot, which needs root'
    for (const program of ['qemu-system-x86_64', 'apt-get', 'skopeo', 'umoci'])
      if (!(await hasProgram(program))) return `${program} is not installed`
    return undefined
  },
  async run(report) {
    const imageDir = join(homedir(), '.cache', 'mote', 'test-images', await recipeDigest())
    await buildPostgresImage({ imageDir, version: 15 })
    // Restore drills would start VMs during the measurement.
    await using cloud = await startBenchCloud('qemu', { MOTE_DATABASE_DRILL_HOURS: '0' })
    await mkdir(join(cloud.dir, 'images'), { recursive: true })
    await symlink(join(imageDir, 'postgres'), join(cloud.dir, 'images', 'postgres'))
    // Wait until the host has reported the image; hosts report their images every second.
    await pause(2000)
    // The first database is not measured, because the host also builds the image's base for it.
    const first = await create(cloud, 'first')
    await snapshot(cloud, first.id, 'older')
    await snapshot(cloud, first.id, 'newest')
    const url = await runningEmbeddedUrl(join(cloud.dir, 'postgres'))
    if (url === undefined) throw new Error('the cloud has no database of its own')
    const db = await connectDb({ url, log: pino({ level: 'silent' }) })
    await using _closing = { [Symbol.asyncDispose]: () => db.close() }
    const parts = { create: new Map<string, number[]>(), branch: new Map<string, number[]>() }
    const creates: number[] = []
    const branches: number[] = []
    const cold: number[] = []
    for (let round = 0; round < rounds; round++) {
      // Wait until the spare branch is ready: preparing it takes CPU time of the same two cores.
      await settled(async () => (await db.one(standing, [])).count === 1)
      const { id, ms } = await create(cloud, `db-${round}`)
      creates.push(ms)
      await note(parts.create, db)
      await remove(cloud, id)
      branches.push(await branch(cloud, first.id, 'newest', `b-${round}`, async () => undefined))
      await settled(async () => (await db.one(standing, [])).count === 1)
      cold.push(await branch(cloud, first.id, 'older', `c-${round}`, () => note(parts.branch, db)))
    }
    const median = (what: string, values: readonly number[]) => report.samples(what, 'ms', values).median / 1000
    report.verdict('time to create a database (median), s', median('create to SELECT 1', creates), 5)
    report.verdict(
      'time to create a branch of the newest snapshot (median), s',
      median('branch to SELECT 1', branches),
      1,
    )
    report.verdict(
      'time to create a branch of an older snapshot (median), s',
      median('branch of an older snapshot', cold),
      1,
    )
    for (const [what, steps] of Object.entries(parts))
      for (const [step, values] of steps) report.samples(`${what}: ${step}`, 'ms', values)
    await remove(cloud, first.id)
  },
}

const standing = statement<{ count: number }>(
  'bench.spares',
  `SELECT count(*)::int AS count FROM branch b JOIN machine m ON m.kind = 'database' AND m.id = b.id
     JOIN vm v ON v.app_id = b.app_id WHERE b.kind = 'spare' AND m.phase = 'standing' AND v.seen_state = 'paused'`,
)
// Selects the times of the branch that became ready last: its own from rows of the control plane, and those of the VM's
// start steps as the agent measured them.
const partsOf = statement<{ toVm: number; steps: { name: string; ms: number }[]; total: number }>(
  'bench.databaseParts',
  `SELECT extract(epoch FROM v.created_at - b.created_at)::float8 * 1000 AS "toVm", v.seen_steps AS steps,
     extract(epoch FROM b.ready_at - b.created_at)::float8 * 1000 AS total
   FROM branch b JOIN vm v ON v.app_id = b.app_id WHERE b.ready_at IS NOT NULL AND b.kind = 'user' ORDER BY b.ready_at DESC LIMIT 1`,
)

/**
 * Splits the creation time of a branch into parts and adds them to `parts`. The step `healthy` lasts from the start of
 * the image's program until its port is open.
 */
async function note(parts: Map<string, number[]>, db: Db): Promise<void> {
  const { toVm, steps, total } = await db.one(partsOf, [])
  const timed = steps.reduce((sum, { ms }) => sum + ms, 0)
  const all = [
    { name: 'request to VM', ms: toVm },
    ...steps,
    { name: 'volumes, waiting, SELECT 1', ms: total - toVm - timed },
  ]
  for (const { name, ms } of all) parts.set(name, [...(parts.get(name) ?? []), ms])
}

async function create(cloud: BenchCloud, name: string): Promise<{ id: string; ms: number }> {
  const began = performance.now()
  const { id } = await cloud.client.createDatabase({ body: { name, engine: 'postgres' } })
  await settled(async () => {
    const { status, message } = await cloud.client.getDatabase({ id })
    if (status === 'failed') throw new Error(`the database failed: ${message}`)
    return status === 'running'
  })
  return { id, ms: performance.now() - began }
}

async function snapshot(cloud: BenchCloud, id: string, name: string): Promise<void> {
  await cloud.client.createDatabaseSnapshot({ id, body: { name } })
  await settled(async () => {
    const all = await cloud.client.listDatabaseSnapshots({ id })
    return all.some(one => one.name === name && one.status === 'ready')
  })
}

async function branch(
  cloud: BenchCloud,
  id: string,
  of: string,
  name: string,
  look: () => Promise<void>,
): Promise<number> {
  const began = performance.now()
  await cloud.client.createDatabaseBranch({ id, body: { name, from_snapshot: of } })
  // Wait until the API returns the connection, which it does only while the database answers clients.
  await settled(() =>
    cloud.client.getDatabaseConnection({ id, query: { branch: name } }).then(
      () => true,
      () => false,
    ),
  )
  const ms = performance.now() - began
  await look()
  await cloud.client.deleteDatabaseBranch({ id, branch_name: name })
  return ms
}

async function remove(cloud: BenchCloud, id: string): Promise<void> {
  await cloud.client.deleteDatabase({ id })
  await settled(async () => {
    const all = await cloud.client.listDatabases()
    return all.every(one => one.id !== id)
  })
}

async function settled(is: () => Promise<boolean>): Promise<void> {
  for (const deadline = performance.now() + 180_000; performance.now() < deadline; await pause(20))
    if (await is()) return
  throw new Error('a database did not settle within three minutes')
}
