import { globSync, readFileSync } from 'node:fs'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

const all = ['src/**/*.test.ts', 'test/**/*.test.ts']

/**
 * What uses a database runs a second time, on Debian's PostgreSQL 15. Suites that go through both servers by themselves
 * (`describeEachPostgres`) and suites that are not about the database (programs, real VMs) run once.
 */
const onPostgres15 = globSync(all).filter(file => {
  const text = readFileSync(file, 'utf8')
  const usesDatabase = /testSystem|testDatabase|support\/identity/.test(text)
  return usesDatabase && !/describeEachPostgres|once-is-enough/.test(text)
})

/**
 * Begun late, each would run on alone at the end; in a fresh checkout the size of a file is all that is known of it. The
 * simulation is first since it lives on what the others leave (decision 0066); beside it are those that wait longest for
 * what they want before they give up.
 */
const first = [
  'test/simulation/simulation.test.ts',
  'src/agent/build/toolchain.test.ts',
  'src/control/databases/machine.test.ts',
  'test/system/cli-commands.test.ts',
  'test/system/database.test.ts',
  'test/system/dashboard.test.ts',
  'test/system/database-object-storage.test.ts',
  'test/system/dashboard-buttons.test.ts',
  'src/agent/disk/pools.test.ts',
  'test/system/mesh.test.ts',
]

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const turnOf = ({ moduleId }: TestSpecification) => {
      const turn = first.findIndex(file => moduleId.endsWith(file))
      return turn === -1 ? first.length : turn
    }
    return (await super.sort(files)).sort((one, other) => turnOf(one) - turnOf(other))
  }
}

export default defineConfig({
  test: {
    globalSetup: ['test/support/global-setup.ts'],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    pool: 'forks',
    // `npm test` says four: three that work, and the simulation.
    maxWorkers: Number(process.env['MOTE_TEST_WORKERS'] ?? 3),
    sequence: { sequencer: LongestFirst },
    projects: [
      { extends: true, test: { name: 'all', include: all } },
      { extends: true, test: { name: 'dashboard', include: ['dashboard/src/**/*.test.ts'] } },
      { extends: true, test: { name: 'pg15', include: onPostgres15, env: { MOTE_TEST_PG: 'pg15' } } },
    ],
  },
})
