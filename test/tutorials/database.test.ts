// Not repeated on the distribution's PostgreSQL: this file follows a tutorial with the built program.
/**
 * Runs only in `npm run test:all`: in `npm test`, test/system/database-gvisor.test.ts runs a managed database in real VMs,
 * and tests of the CLI run the database commands of this tutorial.
 */
import { it } from 'vitest'
import { minutes } from '../../src/lib/duration.ts'
import { runsAll } from '../support/all-examples.ts'
import { fastGuests, withDatabases } from './needs.ts'
import { newReader } from './reader.ts'

it('the tutorial "database" works as written', { timeout: minutes(15) }, async context => {
  context.skip(!runsAll, 'runs with npm run test:all')
  const addImage = await withDatabases(context)
  await using reader = await newReader({ installed: await fastGuests() })
  await reader.begin()
  await addImage(reader)
  await reader.follow('docs/tutorials/database.md')
})
