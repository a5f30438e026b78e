/**
 * Batches of steps whose common statement fails or contains a superseded step. mutants.test.ts tests the lease check of
 * each step of a batch.
 */
import { expect, it, test } from 'vitest'
import { describeEachPostgres } from '../../test/support/database.ts'
import { DbUnavailable } from '../db/errors.ts'
import { newId } from '../lib/ids.ts'
import { createSettle } from './settle.ts'
import { engineStatements } from './statements.ts'
import { expireLeases, sampleWorld } from '../../test/support/engine.ts'

/** A database that fails every statement with the given error and records the statement names. */
function refusing(refusal: Error) {
  const asked: string[] = []
  const refuse = async ({ name }: { readonly name: string }): Promise<never> => {
    asked.push(name)
    throw refusal
  }
  const settle = createSettle({ one: refuse, rows: refuse }, engineStatements)
  const steps = [1, 2, 3].map(() => ({ claim: { kind: 'm', id: newId(), lease: newId(), pokes: 0 }, ms: 1 }))
  return { asked, ended: Promise.allSettled(steps.map(step => settle.wait(step))) }
}

it('commits each step separately when the common statement fails, so that one faulty step does not affect others', async () => {
  const { asked, ended } = refusing(new Error('no'))
  expect((await ended).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  const { wait, waitAll } = engineStatements
  expect(asked).toEqual([waitAll.name, wait.name, wait.name, wait.name])
})

it('fails all steps of a batch at once when the database is unavailable', async () => {
  const error = new DbUnavailable('connection_lost', 'gone')
  const { asked, ended } = refusing(error)
  for (const end of await ended) expect(end).toMatchObject({ status: 'rejected', reason: error })
  expect(asked).toEqual([engineStatements.waitAll.name])
})

describeEachPostgres('of two steps of one workflow in one batch', which => {
  const world = sampleWorld(which)

  test.each(['go', 'wait'] as const)('only the newer one is committed by `%s`', async end => {
    const id = await world.create()
    const claim = () => world.db.one(engineStatements.claim, [['sample'], 1, newId(), 60_000, newId()])
    const overtaken = await claim()
    await world.db.run(expireLeases)
    const newer = await claim()
    const settle = createSettle(world.db, engineStatements)
    const ends = [overtaken, newer].map(claim =>
      end === 'go' ? settle.go({ claim, to: 'two', deadlineMs: 1000 }) : settle.wait({ claim, ms: 60_000 }),
    )
    expect(await Promise.all(ends)).toEqual([false, true])
    expect(await world.read(id)).toMatchObject({ phase: end === 'go' ? 'two' : 'one', leased: false })
  })
})
