// Runs on one PostgreSQL only: tests documents and the built program, not the database.
/** Each night: every change builds an app of each language from its registry (src/agent/build/real-apps.test.ts). */
import { it } from 'vitest'
import { minutes } from '../../src/lib/duration.ts'
import { driverCases } from '../support/agent/hypervisor.ts'
import { isNightly } from '../support/nightly.ts'
import { fastGuests, withDatabases, withImages } from './needs.ts'
import { newReader } from './reader.ts'

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

it('the tutorial of Express, FastAPI and Go works as written', { timeout: minutes(35) }, async context => {
  context.skip(!isNightly, 'runs each night, or with MOTE_TEST_NIGHTLY=1')
  withImages(context, 'node', 'python', 'builder')
  const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')
  context.skip(gvisor?.skip !== false, `builds with registries take too long without ${gvisor?.name ?? 'gVisor'}`)
  const isOnline = (await Promise.all(registries.map(isReached))).every(Boolean)
  context.skip(!isOnline, `not all in reach: ${registries.join(' ')}`)
  const addImage = await withDatabases(context)
  await using reader = await newReader({ installed: await fastGuests() })
  await reader.begin()
  await addImage(reader)
  await reader.follow('docs/tutorials/own-apps.md')
})
