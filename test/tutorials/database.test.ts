// Not repeated on the distribution's PostgreSQL: this file follows a tutorial with the built program.
import { it } from 'vitest'
import { minutes } from '../../src/lib/duration.ts'
import { fastGuests, withDatabases } from './needs.ts'
import { newReader } from './reader.ts'

it('the tutorial "database" works as written', { timeout: minutes(15) }, async context => {
  const addImage = await withDatabases(context)
  await using reader = await newReader({ installed: await fastGuests() })
  await reader.begin()
  await addImage(reader)
  await reader.follow('docs/tutorials/database.md')
})
