/**
 * How long a managed database takes: from the request to the answer to SELECT 1, as its status says it (a client in the
 * VM, signed in as the owner, was answered). The image and its base are there; the VM is a real one.
 */
import { mkdir, symlink } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { buildPostgresImage } from '../src/agent/image/postgres/build.ts'
import { recipeDigest } from '../src/agent/image/postgres/recipe.ts'
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
    await using cloud = await startBenchCloud('qemu')
    await mkdir(join(cloud.dir, 'images'), { recursive: true })
    await symlink(join(imageDir, 'postgres'), join(cloud.dir, 'images', 'postgres'))
    // The first one has the base made.
    const first = await create(cloud, 'first')
    await snapshot(cloud, first.id)
    const creates: number[] = []
    const branches: number[] = []
    for (let round = 0; round < rounds; round++) {
      const { id, ms } = await create(cloud, `db-${round}`)
      creates.push(ms)
      await remove(cloud, id)
      branches.push(await branch(cloud, first.id, `b-${round}`))
    }
    report.verdict('median, s', report.samples('create to SELECT 1', 'ms', creates).median / 1000, 5)
    report.verdict('median, s', report.samples('branch to SELECT 1', 'ms', branches).median / 1000, 1)
    await remove(cloud, first.id)
  },
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

async function branch(cloud: BenchCloud, id: string, name: string): Promise<number> {
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
