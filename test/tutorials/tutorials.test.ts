// once-is-enough: tests documents and the built program, not the database.
/** Every tutorial works as written: its commands run in their order, from the built program, on real VMs. */
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, type TestContext } from 'vitest'
import { agentConfig } from '../../src/agent/base/config.ts'
import { hasToolImage, type ToolImage } from '../../src/agent/build/tool-images.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { minutes } from '../../src/lib/duration.ts'
import { driverCases } from '../support/agent/hypervisor.ts'
import { databaseImages } from '../support/database-image.ts'
import { newReader, type Reader } from './reader.ts'

/** In the order in which they refer to each other: the first one starts the cloud and signs in. */
const inOrder = ['first-app', 'database', 'worker-and-cron', 'own-apps'].map(name => `docs/tutorials/${name}.md`)

const { cacheDir } = agentConfig({ dataDir: '/', hostName: 'test' })
/** Making them takes minutes. @returns why builds that need them cannot run here; empty if they can */
function whyNo(...needed: readonly ToolImage[]): string {
  const lacking = needed.filter(name => !hasToolImage(cacheDir, name))
  return lacking.length > 0 ? `no images ${lacking.join(', ')}; make them with: mote image build builder` : ''
}
const canRunVms = process.getuid?.() === 0 && (await hasProgram('qemu-system-x86_64')) && (await hasProgram('script'))

/** Needs no cloud of another one, and has a test file of its own. */
const alone = 'docs/tutorials/three-hosts.md'

it('are all tested', () => expect(globSync('docs/tutorials/*.md').toSorted()).toEqual([...inOrder, alone].toSorted()))

let reader: Reader
beforeAll(async () => {
  if (canRunVms) reader = await newReader()
}, minutes(2))
afterAll(async () => {
  if (canRunVms) await reader[Symbol.asyncDispose]()
}, minutes(2))

it.runIf(canRunVms)('the first app', { timeout: minutes(12) }, () => reader.follow('docs/tutorials/first-app.md'))

it('a database', { timeout: minutes(12) }, async context => {
  await withDatabases(context)
  await reader.follow('docs/tutorials/database.md')
})

/** Skips the test where databases cannot run; otherwise puts their image where it belongs. */
async function withDatabases(context: TestContext): Promise<void> {
  context.skip(!canRunVms, 'no VMs can run here: needs root and QEMU')
  const installed = await Promise.all(['ssh', 'psql'].map(hasProgram))
  context.skip(!installed.every(Boolean), 'not installed: ssh or psql')
  const images = await databaseImages().catch((error: unknown) => error)
  context.skip(typeof images !== 'string', `no image of PostgreSQL can be made here: ${String(images)}`)
  await reader.addImage(join(String(images), 'postgres'))
}

it('a worker and a scheduled job', { timeout: minutes(15) }, async context => {
  context.skip(!canRunVms, 'no VMs can run here: needs root and QEMU')
  const why = whyNo('node', 'builder')
  context.skip(why !== '', why)
  await reader.follow('docs/tutorials/worker-and-cron.md')
})

/** Each has what the builds of one language fetch. */
const registries = [
  'https://registry.npmjs.org/express/latest',
  'https://pypi.org/simple/fastapi/',
  'https://proxy.golang.org/github.com/lib/pq/@v/list',
]
const isReached = (url: string) =>
  fetch(url, { signal: AbortSignal.timeout(10_000) }).then(
    ({ ok }) => ok,
    () => false,
  )

it('Express, FastAPI and Go with a database', { timeout: minutes(30) }, async context => {
  const why = whyNo('node', 'python', 'builder')
  context.skip(why !== '', why)
  const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')
  context.skip(gvisor?.skip !== false, `builds with registries take too long without ${gvisor?.name ?? 'gVisor'}`)
  const isOnline = (await Promise.all(registries.map(isReached))).every(Boolean)
  context.skip(!isOnline, `not all in reach: ${registries.join(' ')}`)
  await withDatabases(context)
  await reader.follow('docs/tutorials/own-apps.md')
})
