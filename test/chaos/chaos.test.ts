/**
 * Not repeated on the distribution's PostgreSQL: this file tests processes, not the database.
 * Only `npm run test:all` runs the test, for a minute. `npm run bench -- chaos` runs it for ten minutes.
 */
import { expect, it } from 'vitest'
import { testDatabase } from '../support/database.ts'
import { natsMissing } from '../support/nats.ts'
import { chaos } from './chaos.ts'

const seconds = Number(process.env['MOTE_CHAOS_SECONDS'] ?? 60)
const seed = Number(process.env['MOTE_CHAOS_SEED'] ?? 1)

it.skipIf(natsMissing)(
  `${seconds} s of kill -9 under load lose no acknowledged write and leak nothing ${natsMissing ?? ''}`,
  async () => {
    await using database = await testDatabase()
    const result = await chaos({ database, seconds, seed, killEveryMs: 1500, settleSeconds: 60 })
    console.info(`chaos: ${JSON.stringify(result)}`)
    expect(result.faults).toEqual([])
    expect(result.kills.control + result.kills.agent).toBeGreaterThanOrEqual(seconds / 3)
    expect(result.acknowledged).toBeGreaterThan(20)
  },
  (seconds + 180) * 1000,
)
