// Not repeated on the distribution's PostgreSQL: this file follows a tutorial with the built program.
/**
 * Runs only in `npm run test:all`: in `npm test`, test/system/quickstart.test.ts and the tests of workers and jobs in
 * test/system/cli-config.test.ts cover the commands of this tutorial.
 */
import { it } from 'vitest'
import { minutes } from '../../src/lib/duration.ts'
import { runsAll } from '../support/all-examples.ts'
import { fastGuests, withImages, withVms } from './needs.ts'
import { newReader } from './reader.ts'

it('the tutorial "worker and cron" works as written', { timeout: minutes(18) }, async context => {
  context.skip(!runsAll, 'runs with npm run test:all')
  await withVms(context)
  withImages(context, 'node', 'builder')
  await using reader = await newReader({ installed: await fastGuests() })
  await reader.begin()
  await reader.follow('docs/tutorials/worker-and-cron.md')
})
