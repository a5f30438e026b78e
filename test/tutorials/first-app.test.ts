// Not repeated on the distribution's PostgreSQL: this file follows a tutorial with the built program.
/** Runs the commands of the first tutorial in their order, with the built program and real VMs. */
import { it } from 'vitest'
import { minutes } from '../../src/lib/duration.ts'
import { withVms } from './needs.ts'
import { newReader } from './reader.ts'

it('the tutorial "first app" works as written', { timeout: minutes(15) }, async context => {
  await withVms(context)
  await using reader = await newReader()
  await reader.follow('docs/tutorials/first-app.md')
})
