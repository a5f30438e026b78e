import { globSync, readFileSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'
import { LongestFirst } from './test/support/longest-first.ts'
import { quickTests } from './test/support/quick.ts'
import { runReport } from './test/support/run-report.ts'

const all = ['src/**/*.test.ts', 'test/**/*.test.ts']
/** Lives on every core, each with a PostgreSQL of its own: beside it emulated guests would take twice as long. */
const lives = 'test/simulation/simulation.test.ts'
/** A fresh machine installs packages and boots VMs on every core, for minutes. */
const anywhere = 'test/anywhere/anywhere.test.ts'

// Test processes, and the programs that tests start, inherit it: a command of the CLI takes 0.1 s of CPU instead of 0.3.
// Programs under test would compete for the default port of the registry.
process.env['MOTE_REGISTRY_PORT'] ??= ''
process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, '.cache/compile')

/** Minutes, and a program of PyPI: `npm run test:schemathesis`. */
const schemathesis = 'test/schemathesis/schemathesis.test.ts'

/** TMPFS_MAGIC (statfs(2)). */
const tmpfs = 0x01021994
// In Debian 13 /tmp is in memory: VMs' disks have no room there, and nobody can ask where a file has data.
if (statfsSync(tmpdir()).type === tmpfs) process.env['TMPDIR'] = '/var/tmp'

/**
 * With MOTE_TEST_INSTALLED, what uses a database runs a second time, on the PostgreSQL of the distribution. Each run covers that server with the suites
 * that go through both by themselves (`describeEachPostgres`): migrations, transactions, the engine, and every statement of the program. Suites that are
 * not about the database (programs, real VMs) never run twice.
 */
const onInstalled = globSync(process.env['MOTE_TEST_INSTALLED'] ? all : []).filter(file => {
  const text = readFileSync(file, 'utf8')
  const usesDatabase = /testSystem|testDatabase|support\/identity/.test(text)
  return usesDatabase && !/describeEachPostgres|Runs on one PostgreSQL only/.test(text)
})

/** Tests of a module's own state, which other test files in the same process would change. */
const fresh = ['src/lib/buffer-pool.test.ts']
/**
 * Files that run in a process of their own: they test a module's state, replace modules or environment variables, or measure
 * the process. All other files share three processes, because starting one and loading the modules takes 0.9 s of CPU.
 */
const alone = globSync(all).filter(
  file =>
    fresh.includes(file) ||
    file.startsWith('test/stalls/') ||
    /vi\.(mock|stubEnv)\(|[cC]puUsage\(|memoryUsage\(|resourceUsage\(/.test(readFileSync(file, 'utf8')),
)

/** `npm run test:quick`: a subset, in less than 90 s. It needs no database, hence no set-up. */
const isQuick = Boolean(process.env['MOTE_TEST_QUICK'])
const quick = isQuick ? quickTests() : []

export default defineConfig({
  test: {
    // MOTE_TEST_CPU=<file>: CPU time of each test file (docs/notes/test-suite-time.md).
    setupFiles: process.env['MOTE_TEST_CPU'] ? ['test/support/cpu-record.ts'] : [],
    globalSetup: isQuick ? [] : ['test/support/global-setup.ts'],
    reporters: ['default', runReport()],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    pool: 'forks',
    sequence: { sequencer: LongestFirst },
    maxWorkers: 3,
    isolate: false,
    projects: [
      ...(isQuick
        ? [
            { extends: true as const, test: { name: 'quick', include: quick.filter(file => !alone.includes(file)) } },
            {
              extends: true as const,
              test: { name: 'quick-alone', include: quick.filter(file => alone.includes(file)), isolate: true },
            },
          ]
        : []),
      {
        extends: true,
        test: {
          name: 'all',
          include: all,
          exclude: [...configDefaults.exclude, ...alone, lives, anywhere, schemathesis],
        },
      },
      { extends: true, test: { name: 'alone', include: alone, isolate: true } },
      { extends: true, test: { name: 'dashboard', include: ['dashboard/src/**/*.test.ts'] } },
      ...(onInstalled.length > 0
        ? [
            {
              extends: true as const,
              test: { name: 'installed', include: onInstalled, env: { MOTE_TEST_PG: 'installed' } },
            },
          ]
        : []),
      { extends: true, test: { name: 'lives', include: [lives], sequence: { groupOrder: 1 } } },
      ...(process.env['MOTE_SCHEMATHESIS']
        ? [{ extends: true as const, test: { name: 'schemathesis', include: [schemathesis] } }]
        : []),
      { extends: true, test: { name: 'anywhere', include: [anywhere], sequence: { groupOrder: 2 } } },
    ],
  },
})
