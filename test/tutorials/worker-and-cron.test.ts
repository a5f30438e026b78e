// Runs on one PostgreSQL only: follows a tutorial with the built program, and does not test the database server.
import { it } from 'vitest'
import { minutes } from '../../src/lib/duration.ts'
import { fastGuests, withImages, withVms } from './needs.ts'
import { newReader } from './reader.ts'

it('the tutorial "worker and cron" works as written', { timeout: minutes(18) }, async context => {
  await withVms(context)
  withImages(context, 'node', 'builder')
  await using reader = await newReader({ installed: await fastGuests() })
  await reader.begin()
  await reader.follow('docs/tutorials/worker-and-cron.md')
})
