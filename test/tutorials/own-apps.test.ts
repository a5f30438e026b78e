// Not repeated on the distribution's PostgreSQL: this file follows a tutorial with the built program.
/** Runs only in `npm run test:all`: src/agent/build/real-apps.test.ts builds apps of these languages, too. */
import { it } from 'vitest'
import { minutes } from '../../src/lib/duration.ts'
import { driverCases } from '../support/agent/hypervisor.ts'
import { runsAll } from '../support/all-examples.ts'
import { fastGuests, withDatabases, withImages } from './needs.ts'
import { newReader } from './reader.ts'

/** URLs of the package registries of the three languages; if one cannot be reached, the test is skipped. */
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

it('the tutorial "own apps" (Express, FastAPI, Go) works as written', { timeout: minutes(35) }, async context => {
  context.skip(!runsAll, 'runs with npm run test:all')
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
