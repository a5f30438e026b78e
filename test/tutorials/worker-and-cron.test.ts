// Not repeated on the distribution's PostgreSQL: this file follows a tutorial with the built program.
/**
 * Runs only each night: with every change, the other tutorials and the tests of `worker` and `jobs` in
 * test/system/cli-config.test.ts cover the commands of this tutorial.
 */
import { it } from 'vitest'
import { minutes } from '../../src/lib/duration.ts'
import { isNightly } from '../support/nightly.ts'
import { fastGuests, withImages, withVms } from './needs.ts'
import { newReader } from './reader.ts'

it('the tutorial "worker and cron" works as written', { timeout: minutes(18) }, async context => {
  context.skip(!isNightly, 'runs each night, or with MOTE_TEST_NIGHTLY=1')
  await withVms(context)
  withImages(context, 'node', 'builder')
  await using reader = await newReader({ installed: await fastGuests() })
  await reader.begin()
  await reader.follow('docs/tutorials/worker-and-cron.md')
})
