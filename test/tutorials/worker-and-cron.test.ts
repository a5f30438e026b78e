// Runs on one PostgreSQL only: tests documents and the built program, not the database.
import { it } from 'vitest'
import { minutes } from '../../src/lib/duration.ts'
import { fastGuests, withImages, withVms } from './needs.ts'
import { newReader } from './reader.ts'

it('the tutorial of a worker and a scheduled job works as written', { timeout: minutes(18) }, async context => {
  await withVms(context)
  withImages(context, 'node', 'builder')
  await using reader = await newReader({ installed: await fastGuests() })
  await reader.begin()
  await reader.follow('docs/tutorials/worker-and-cron.md')
})
