/**
 * Plants one bug at a time in the SQL statements of the control plane. The simulation must find each bug, and find it
 * again with the same seed. No bug is planted in the fence (the check that a runner still holds its lease), because
 * workflow steps are idempotent and tolerate repeated writes; src/engine/mutants.test.ts covers it.
 */
import { afterAll, expect, it } from 'vitest'
import type { Db, Sql, Statement, Tx } from '../../src/db/db.ts'
import { runsAll } from '../support/all-examples.ts'
import { live } from './life.ts'
import { type Stage, simulationStage, stageOf } from './stage.ts'

interface Change {
  /** Name of the changed statement. In its text, `piece` is replaced with `by`. */
  readonly statement: string
  readonly piece: string | RegExp
  readonly by: string
}
interface Mutant {
  readonly what: string
  readonly changes: readonly Change[]
}

const mutants: readonly Mutant[] = [
  {
    what: 'hosts look empty, and VMs are placed regardless of capacity',
    changes: [
      {
        statement: 'hosts.rooms',
        piece: /used_(vcpus|memory_mib|disk_mib) AS/g,
        by: '0 AS',
      },
      {
        statement: 'vms.place',
        piece: /q\.\w+_so_far <= r\.\w+( AND)?|h\.used_\w+ \+ t\.\w+ <= h\.\w+( AND)?/g,
        by: 'true$1$2',
      },
    ],
  },
  {
    what: 'the reserved capacity omits the placed VM',
    changes: [
      {
        statement: 'vms.place',
        piece: 'SET used_vcpus = h.used_vcpus + t.vcpus, used_memory_mib = h.used_memory_mib + t.memory_mib',
        by: 'SET used_vcpus = h.used_vcpus, used_memory_mib = h.used_memory_mib',
      },
    ],
  },
  {
    what: 'VMs are placed on cordoned or lost hosts',
    changes: [
      {
        statement: 'hosts.rooms',
        piece: 'cordoned,\n     lost_at IS NULL AND last_seen_at > now() - make_interval(secs => $1) AS up',
        by: 'false AS cordoned, $1::int > 0 AS up',
      },
      { statement: 'vms.place', piece: 'AND NOT cordoned AND lost_at IS NULL', by: '' },
    ],
  },
  { what: 'capacity is not released', changes: [{ statement: 'hosts.release', piece: /\$3/g, by: '0 * $3' }] },
  {
    what: 'routes lead to unhealthy VMs',
    changes: [{ statement: 'routing.refresh', piece: 'AND v.healthy AND', by: 'AND' }],
  },
  {
    what: 'a change of the desired state does not increase the generation',
    changes: [{ statement: 'vms.setWant', piece: 'generation = generation + 1', by: 'generation = generation' }],
  },
  {
    what: 'apps that ask for a virtual machine run on gVisor',
    changes: [{ statement: 'vms.byIds', piece: 'd.hypervisor AS', by: '0 AS' }],
  },
  {
    what: 'a VM that is being removed leaves its place before it is gone',
    changes: [
      {
        statement: 'deployments.freePlaces',
        piece: 'AND vm.run_id IS NULL)',
        by: "AND vm.run_id IS NULL AND want <> 'absent')",
      },
    ],
  },
  {
    what: 'failed requests of a canary are not read',
    changes: [{ statement: 'deployments.byId', piece: 'd.canary_failed::float8', by: '0 * d.canary_failed::float8' }],
  },
  {
    what: 'the time of a job is not moved on',
    changes: [{ statement: 'jobs.next', piece: 'next_at = $2', by: 'next_at = least(next_at, $2)' }],
  },
]
const mostSeeds = 40
const steps = 500

const stages: Stage[] = []
afterAll(async () => {
  for (const stage of stages) await stage[Symbol.asyncDispose]()
})

/** Wraps a database so that the statements of the mutant are replaced with faulty ones. */
function mutated(db: Db, { what, changes }: Mutant): Db {
  const change = <Row>(asked: Statement<Row>): Statement<Row> => {
    const mine = changes.find(one => one.statement === asked.name)
    if (!mine) return asked
    const text = asked.text.replace(mine.piece, mine.by)
    if (text === asked.text) throw new Error(`BUG: nothing to change in ${asked.name} for: ${what}`)
    return { name: `${asked.name} ${what}`.slice(0, 60), text }
  }
  const sqlOf = (from: Sql): Sql => ({
    rows: (asked, params) => from.rows(change(asked), params),
    one: (asked, params) => from.one(change(asked), params),
    maybe: (asked, params) => from.maybe(change(asked), params),
    run: (asked, params) => from.run(change(asked), params),
  })
  return { ...db, ...sqlOf(db), tx: work => db.tx(tx => work({ ...tx, ...sqlOf(tx) } satisfies Tx)) }
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? `${error.message.split('\n')[0]}: ${messageOf(error.cause)}` : String(error)

/**
 * Names of the mutants that `npm test` tests. All others run only in `npm run test:all`: they take ten times as long,
 * and test the simulation rather than the product.
 */
const inEachRun = [
  'the reserved capacity omits the placed VM',
  'VMs are placed on cordoned or lost hosts',
  'capacity is not released',
]
const chosen = mutants.filter(({ what }) => runsAll || inEachRun.includes(what))

it.each(chosen.map(mutant => [mutant.what, mutant] as const))(
  'the simulation detects the bug: %s',
  async (_, mutant) => {
    const stage = await simulationStage()
    stages.push(stage)
    const sick = stageOf(mutated(stage.db, mutant))
    const fate = (seed: number) => live(sick, seed, steps, new Set()).then(() => undefined, messageOf)
    for (let seed = 1; seed <= mostSeeds; seed++) {
      const found = await fate(seed)
      if (found === undefined) continue
      // Replace ids in the messages, because ids differ between runs of the same seed.
      const comparable = (text: string | undefined) => text?.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, '#')
      expect(comparable(await fate(seed))).toBe(comparable(found))
      // The unchanged program must pass with the same seed, which shows that the planted bug caused the failure.
      await live(stage, seed, steps, new Set())
      return
    }
    expect.fail(`no life of ${mostSeeds} found it`)
  },
  600_000,
)
