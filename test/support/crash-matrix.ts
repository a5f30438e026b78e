/**
 * Crash matrix: interrupts a workflow in every phase with every fault. For each case, it runs the workflow of a new
 * resource ("subject") to that phase and injects the fault once. The workflow must then end as it does without the
 * fault.
 */
import { pino } from 'pino'
import type { Db, Sql, Statement, Tx } from '../../src/db/db.ts'
import { DbUnavailable } from '../../src/db/errors.ts'
import type { AnyWorkflow, Step } from '../../src/engine/workflow.ts'
import { createRunner, readWorkflow, type Runner } from '../../src/engine/runner.ts'
import { engineStatements } from '../../src/engine/statements.ts'
import { runsAll } from './all-examples.ts'

export const faults = [
  /** The process dies before the handler has any effect (here: the handler throws). */
  'before-handler',
  /** The process dies after the handler's external effects, but before they are recorded. */
  'after-handler',
  /** The commit succeeds, but its response is lost because the connection breaks. */
  'answer-lost',
  /** The lease expires while the handler runs, and another runner runs the same step concurrently. */
  'double-run',
  /** The deletion of the resource is requested just before the step. */
  'deletion',
] as const
export type Fault = (typeof faults)[number]

export interface CrashSubject {
  readonly id: string
}

export interface CrashMatrixOptions<S extends CrashSubject> {
  readonly db: Db
  readonly workflow: AnyWorkflow
  /** Creates a fresh resource with its workflow row; called once per case. */
  readonly makeSubject: () => Promise<S>
  /**
   * Requests deletion of the resource, and pokes its workflow. Without this function, the fault `deletion` is omitted.
   */
  readonly remove?: (subject: S) => Promise<void>
  /**
   * Simulates hosts and other workflows. Called before each step. May also request a transition to a phase that the
   * workflow enters only on request.
   */
  readonly advance?: (subject: S, phase: string) => Promise<void>
  /** Returns whether the workflow has ended or rests in a steady phase. By default: whether its row is gone. */
  readonly isSettled?: (subject: S, phase: string | undefined) => Promise<boolean> | boolean
  /** Throws if the final state is wrong: a leak, a duplicate, a wrong state. */
  readonly check: (subject: S, at: { readonly phase: string; readonly fault: Fault }) => Promise<void>
  /** Phases that the workflow of this resource never enters, each with the reason. It must enter every other phase. */
  readonly unreachable?: Readonly<Record<string, string>>
  /** Maximum number of steps per case. Default: 200. */
  readonly maxSteps?: number
}

export interface CrashCase {
  readonly name: string
  readonly phase: string
  readonly fault: Fault
  run(): Promise<void>
}

/** Returns the cases for `test.each`: one for each pair of a phase and a fault. */
export function crashMatrix<S extends CrashSubject>(options: CrashMatrixOptions<S>): CrashCase[] {
  const phases = Object.keys(options.workflow.phases).filter(phase => options.unreachable?.[phase] === undefined)
  const possible = faults.filter(fault => fault !== 'deletion' || options.remove !== undefined)
  return phases.flatMap(phase =>
    possible.map(fault => ({ name: `${phase}: ${fault}`, phase, fault, run: () => runCase(options, phase, fault) })),
  )
}

/**
 * Returns every second case, and the other ones for the next phase. In `npm run test:all`, returns all cases. For
 * workflows with several matrices, which interrupt the same phases of different resources.
 */
export function everySecond(cases: readonly CrashCase[]): readonly CrashCase[] {
  const phases = [...new Set(cases.map(({ phase }) => phase))]
  return cases.filter(({ phase, fault }) => runsAll || (phases.indexOf(phase) + faults.indexOf(fault)) % 2 === 0)
}

async function runCase<S extends CrashSubject>(
  options: CrashMatrixOptions<S>,
  phase: string,
  fault: Fault,
): Promise<void> {
  const subject = await options.makeSubject()
  const injector = createInjector(options, subject, phase, fault)
  const runner = injector.runner(options.db)
  let reached = false
  for (let steps = 0; steps < (options.maxSteps ?? 200); steps++) {
    const row = await readWorkflow(options.db, options.workflow.kind, subject.id)
    const isSettled = options.isSettled ? await options.isSettled(subject, row?.phase) : row === undefined
    if (isSettled && injector.injected()) break
    if (row === undefined) {
      if (isSettled) break
      throw new Error(`the workflow row of ${subject.id} is gone, but ${options.workflow.kind} has not settled`)
    }
    reached ||= row.phase === phase
    if (reached && !injector.injected()) await injector.beforeStep()
    await options.advance?.(subject, row.phase)
    await makeDue(options.db, options.workflow.kind, subject.id)
    await runner.tickOnce()
  }
  if (!injector.injected())
    throw new Error(`phase "${phase}" of ${options.workflow.kind} was never reached: nothing was tested`)
  const last = await readWorkflow(options.db, options.workflow.kind, subject.id)
  const isSettled = options.isSettled ? await options.isSettled(subject, last?.phase) : last === undefined
  if (!isSettled)
    throw new Error(
      `after ${fault} in "${phase}" the workflow never settled: it is in "${last?.phase}", ${last?.last_error ?? 'no error'}`,
    )
  await options.check(subject, { phase, fault })
}

const makeDueStatement: Statement<never> = {
  name: 'test.make_due',
  text: `UPDATE machine SET wake_at = now(), lease = NULL, lease_until = NULL, runner = NULL WHERE kind = $1 AND id = $2`,
}

/** Makes the workflow due now: ends its back-off or wait, which the crash matrix does not test, and its lease. */
async function makeDue(db: Db, kind: string, id: string): Promise<void> {
  await db.run(makeDueStatement, [kind, id])
}

/**
 * Number of due workflows that a runner claims at once. It exceeds the number of workflows in the database: otherwise the
 * runner might claim the same other workflows each time, and never the tested one.
 */
const batch = 100_000

class InjectedFault extends Error {}

function createInjector<S extends CrashSubject>(
  options: CrashMatrixOptions<S>,
  subject: S,
  phase: string,
  fault: Fault,
) {
  const { workflow } = options
  let injected = false
  const log = pino({ level: 'silent' })
  const original = workflow.phases[phase]
  if (original === undefined) throw new Error(`BUG: ${workflow.kind} has no phase "${phase}"`)
  const plain = (db: Db): Runner => createRunner({ db, workflows: [workflow], log, batch })
  // The type of the resource is `unknown`, because the handler only passes the resource through.
  const handler = async (step: Step<unknown>) => {
    if (injected || !(await isOurs(options.db, workflow.kind, subject.id, step))) return original(step)
    switch (fault) {
      case 'before-handler':
        injected = true
        throw new InjectedFault('died before the handler')
      case 'after-handler':
        injected = true
        await original(step)
        throw new InjectedFault('died after the handler')
      case 'double-run': {
        injected = true
        const next = await original(step)
        await makeDue(options.db, workflow.kind, subject.id)
        await plain(options.db).tickOnce()
        return next
      }
      case 'answer-lost':
      case 'deletion':
        return original(step)
    }
  }
  const faulty: AnyWorkflow = { ...workflow, phases: { ...workflow.phases, [phase]: handler } }
  const loseAnswer = () => {
    if (fault !== 'answer-lost' || injected) return
    injected = true
    throw new DbUnavailable('commit_unknown', 'the answer to COMMIT was lost')
  }
  return {
    injected: () => injected,
    runner: (db: Db) =>
      createRunner({ db: losingAnswers(db, phase, options, subject, loseAnswer), workflows: [faulty], log, batch }),
    async beforeStep() {
      if (fault !== 'deletion') return
      injected = true
      await options.remove?.(subject)
    },
  }
}

/**
 * Returns whether the step belongs to the resource that the crash matrix tests at the moment. Other workflows may run in
 * the same database.
 */
async function isOurs(db: Db, kind: string, id: string, step: Step<unknown>): Promise<boolean> {
  const row = await readWorkflow(db, kind, id)
  return row?.leased === true && row.phase === step.phase
}

/** Wraps a database so that `loseAnswer` is called after a step of the resource in `phase` has been committed. */
function losingAnswers<S extends CrashSubject>(
  db: Db,
  phase: string,
  options: CrashMatrixOptions<S>,
  subject: S,
  loseAnswer: () => void,
): Db {
  const { go, goAll, wait, waitAll, done } = engineStatements
  const commits = new Set<string>([go, goAll, wait, waitAll, done].map(statement => statement.name))
  // The id parameter is a list if the statement commits the steps of several workflows.
  const isCommit = (statement: Statement<unknown>, params: readonly unknown[] = []) =>
    commits.has(statement.name) && [params[1]].flat().includes(subject.id)
  const inPhase = async () => (await readWorkflow(db, options.workflow.kind, subject.id))?.phase === phase
  return {
    ...db,
    async one(statement, params) {
      const hurt = isCommit(statement, params) && (await inPhase())
      const row = await db.one(statement, params)
      if (hurt) loseAnswer()
      return row
    },
    async rows(statement, params) {
      const hurt = isCommit(statement, params) && (await inPhase())
      const rows = await db.rows(statement, params)
      if (hurt) loseAnswer()
      return rows
    },
    async tx<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
      let hurt = false
      const result = await db.tx(tx => {
        const watched: Tx = { ...tx, one: watchedOne(tx) }
        return work(watched)
      })
      if (hurt) loseAnswer()
      return result

      function watchedOne(tx: Sql): Sql['one'] {
        return async (statement, params) => {
          if (isCommit(statement, params)) hurt = await inPhase()
          return tx.one(statement, params)
        }
      }
    },
  }
}
