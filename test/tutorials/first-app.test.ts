// Runs on one PostgreSQL only: tests documents and the built program, not the database.
/** The first tutorial works as written: its commands run in their order, from the built program, on real VMs. */
import { it } from 'vitest'
import { minutes } from '../../src/lib/duration.ts'
import { withVms } from './needs.ts'
import { newReader } from './reader.ts'

it('the first app', { timeout: minutes(15) }, async context => {
  await withVms(context)
  await using reader = await newReader()
  await reader.follow('docs/tutorials/first-app.md')
})
