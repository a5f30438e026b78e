/** What becomes of steps whose common commit fails. That each has a fence of its own: mutants.test.ts. */
import { expect, it } from 'vitest'
import { DbUnavailable } from '../db/errors.ts'
import { newId } from '../lib/ids.ts'
import { createSettle } from './settle.ts'
import { engineStatements } from './statements.ts'

/** A database that refuses everything, and the statements that it was asked. */
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

it('tries each alone when the common statement fails, so that one that cannot be committed harms no other', async () => {
  const { asked, ended } = refusing(new Error('no'))
  expect((await ended).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  const { wait, waitAll } = engineStatements
  expect(asked).toEqual([waitAll.name, wait.name, wait.name, wait.name])
})

it('fails all at once when the database is away', async () => {
  const error = new DbUnavailable('connection_lost', 'gone')
  const { asked, ended } = refusing(error)
  for (const end of await ended) expect(end).toMatchObject({ status: 'rejected', reason: error })
  expect(asked).toEqual([engineStatements.waitAll.name])
})
