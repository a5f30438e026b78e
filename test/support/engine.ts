/** For tests of the workflow engine: a workflow with handlers from the test, and runners on a database of their own. */
import { pino } from 'pino'
import { afterEach, beforeEach } from 'vitest'
import { type PostgresChoice, type TestDatabase, testDatabase } from './database.ts'
import { type Db, statement } from '../../src/db/db.ts'
import { newId } from '../../src/lib/ids.ts'
import { type AnyWorkflow, done, workflow, type Next, type Step } from '../../src/engine/workflow.ts'
import { createWorkflow, createRunner, readWorkflow, type Runner, type RunnerOptions } from '../../src/engine/runner.ts'

export const log = pino({ level: 'silent' })

export type Handler = (step: Step<{ id: string }>) => Promise<Next<'one' | 'two' | 'ending'>>

/** Returns a workflow with the phases `one`, `two` and `ending`. */
export function sample(
  handlers: { one: Handler; two?: Handler; ending?: Handler },
  options: Partial<AnyWorkflow> = {},
): AnyWorkflow {
  const all: readonly ['one', 'two', 'ending'] = ['one', 'two', 'ending']
  return {
    ...workflow<{ id: string }>()({
      kind: 'sample',
      edges: { one: all, two: all, ending: all },
      load: async id => ({ id }),
      phases: { two: async () => done(), ending: async () => done(), ...handlers },
    }),
    ...options,
  }
}

export const makeDue = statement('test.due', 'UPDATE machine SET wake_at = now()')
export const expireLeases = statement(
  'test.expire',
  "UPDATE machine SET lease_until = now() - interval '1 second' WHERE lease IS NOT NULL",
)

/** Creates a new database for each test of the file, and stops runners that a test has left running. */
export function sampleWorld(which: PostgresChoice) {
  let database: TestDatabase
  const started: Runner[] = []
  beforeEach(async () => {
    database = await testDatabase(which)
  })
  afterEach(async () => {
    await Promise.all(started.splice(0).map(runner => runner.stop({ drainMs: 0 })))
    await database.drop()
  })
  return {
    get database(): TestDatabase {
      return database
    },
    get db(): Db {
      return database.db
    },
    runnerOf(m: AnyWorkflow, options: Partial<RunnerOptions> = {}): Runner {
      const runner = createRunner({ db: database.db, workflows: [m], log, ...options })
      started.push(runner)
      return runner
    },
    async create(phase = 'one', options: Parameters<typeof createWorkflow>[4] = {}): Promise<string> {
      const id = newId()
      await database.db.tx(tx => createWorkflow(tx, 'sample', id, phase, options))
      return id
    },
    read: (id: string) => readWorkflow(database.db, 'sample', id),
  }
}
