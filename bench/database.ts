/**
 * How long a managed database takes: from the request to the answer to SELECT 1, as its status says it (a client in the
 * VM, signed in as the owner, was answered). The image and its base are there; the VM is a real one.
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
  goal: 'create to SELECT 1 in at most 5 s with the image cached, branch to SELECT 1 in at most 1 s',
  async unable() {
    if (process.getuid?.() !== 0) return 'the image is made in a chroot, which needs root'
    for (const program of ['qemu-system-x86_64', 'apt-get', 'skopeo', 'umoci'])
      if (!(await hasProgram(program))) return `${program} is not installed`
    return undefined
  },
  async run(report) {
    const imageDir = join(homedir(), '.cache', 'mote', 'test-images', await recipeDigest())
    await buildPostgresImage({ imageDir, version: 15 })
    // Drills start VMs of their own beside what is measured.
    await using cloud = await startBenchCloud('qemu', { MOTE_DATABASE_DRILL_HOURS: '0' })
    await mkdir(join(cloud.dir, 'images'), { recursive: true })
    await symlink(join(imageDir, 'postgres'), join(cloud.dir, 'images', 'postgres'))
    // Hosts tell each second which images they have.
    await pause(2000)
    // The first one has the base made.
    const first = await create(cloud, 'first')
    await snapshot(cloud, first.id)
    const url = await runningEmbeddedUrl(join(cloud.dir, 'postgres'))
    if (url === undefined) throw new Error('the cloud has no database of its own')
    const db = await connectDb({ url, log: pino({ level: 'silent' }) })
    await using _closing = { [Symbol.asyncDispose]: () => db.close() }
    const parts = { create: new Map<string, number[]>(), branch: new Map<string, number[]>() }
    const creates: number[] = []
    const branches: number[] = []
    for (let round = 0; round < rounds; round++) {
      const { id, ms } = await create(cloud, `db-${round}`)
      creates.push(ms)
      await note(parts.create, db)
      await remove(cloud, id)
      branches.push(await branch(cloud, first.id, `b-${round}`, () => note(parts.branch, db)))
    }
    report.verdict('median, s', report.samples('create to SELECT 1', 'ms', creates).median / 1000, 5)
    report.verdict('median, s', report.samples('branch to SELECT 1', 'ms', branches).median / 1000, 1)
    for (const [what, steps] of Object.entries(parts))
      for (const [step, values] of steps) report.samples(`${what}: ${step}`, 'ms', values)
    await remove(cloud, first.id)
  },
}

// The newest branch that answers: rows of the control plane, steps of its VM as the agent timed them.
const partsOf = statement<{ toVm: number; steps: { name: string; ms: number }[]; total: number }>(
  'bench.databaseParts',
  `SELECT extract(epoch FROM v.created_at - b.created_at)::float8 * 1000 AS "toVm", v.seen_steps AS steps,
     extract(epoch FROM b.ready_at - b.created_at)::float8 * 1000 AS total
   FROM branch b JOIN vm v ON v.app_id = b.app_id WHERE b.ready_at IS NOT NULL ORDER BY b.ready_at DESC LIMIT 1`,
)

/** Where the time of one went. `healthy`: from the start of the image's program until its port is open. */
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

async function snapshot(cloud: BenchCloud, id: string): Promise<void> {
  await cloud.client.createDatabaseSnapshot({ id, body: { name: 'start' } })
  await settled(async () => {
    const [one] = await cloud.client.listDatabaseSnapshots({ id })
    return one?.status === 'ready'
  })
}

async function branch(cloud: BenchCloud, id: string, name: string, look: () => Promise<void>): Promise<number> {
  const began = performance.now()
  await cloud.client.createDatabaseBranch({ id, body: { name, from_snapshot: 'start' } })
  // Connection info is there only while a client is answered.
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
