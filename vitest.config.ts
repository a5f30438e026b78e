import { globSync, readFileSync, statfsSync } from 'node:fs'
import { availableParallelism, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'
import { filesOnlyInAll } from './test/support/files-only-in-all.ts'
import { LongestFirst } from './test/support/longest-first.ts'
import { quickTests } from './test/support/quick.ts'
import { runReport } from './test/support/run-report.ts'

const all = ['src/**/*.test.ts', 'test/**/*.test.ts']
/**
 * The simulation, which runs after the other tests: it uses every core, with a PostgreSQL server on each, and would
 * make the emulated guests of other tests twice as slow.
 */
const lives = 'test/simulation/simulation.test.ts'
/**
 * The test of the README's first command on a fresh Debian. It runs last, because it installs packages and boots VMs
 * on every core for minutes.
 */
const anywhere = 'test/anywhere/anywhere.test.ts'

// Test processes and the programs that they start inherit these variables. The empty port disables the image registry,
// because programs under test would compete for its default port. The compile cache reduces the CPU time of a CLI
// command from 0.3 to 0.1 s.
process.env['MOTE_REGISTRY_PORT'] ??= ''
process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, '.cache/compile')

/** A test that only `npm run test:schemathesis` runs, because it takes minutes and needs a program from PyPI. */
const schemathesis = 'test/schemathesis/schemathesis.test.ts'

/** File system type of tmpfs: TMPFS_MAGIC (statfs(2)). */
const tmpfs = 0x01021994
// Since Debian 13 /tmp is a tmpfs, which is too small for the disks of VMs and does not support FIEMAP, the ioctl that
// lists the data extents of a file.
if (statfsSync(tmpdir()).type === tmpfs) process.env['TMPDIR'] = '/var/tmp'

/**
 * Test files that run a second time if MOTE_TEST_INSTALLED is set, on the distribution's PostgreSQL instead of the
 * embedded one: those that use a database, except files with `describeEachPostgres`, which use both servers in every
 * run, and files marked "Not repeated on the distribution's PostgreSQL", which do not depend on the server.
 */
const onInstalled = globSync(process.env['MOTE_TEST_INSTALLED'] ? all : []).filter(file => {
  const text = readFileSync(file, 'utf8')
  const usesDatabase = /testSystem|testDatabase|support\/identity/.test(text)
  return usesDatabase && !/describeEachPostgres|Not repeated on the distribution's PostgreSQL/.test(text)
})

/** Test files that depend on the initial state of a module, which other test files in the same process would change. */
const fresh = ['src/lib/buffer-pool.test.ts']
/**
 * Test files that each run in a process of their own, because they test a module's state, replace modules or
 * environment variables, or measure the process. All other files share processes, because starting a process and
 * loading the modules takes 0.9 s of CPU time.
 */
const alone = globSync(all).filter(
  file =>
    fresh.includes(file) ||
    file.startsWith('test/stalls/') ||
    /vi\.(mock|stubEnv)\(|[cC]puUsage\(|memoryUsage\(|resourceUsage\(/.test(readFileSync(file, 'utf8')),
)

/**
 * Number of test processes. Tests often wait for a VM or the database, so there are two more processes than cores: with
 * one more, two cores are idle for a fifth of the time. Each may run VMs, so it needs 2 GiB of memory.
 */
const maxWorkers = Math.max(3, Math.min(8, availableParallelism() + 2, Math.floor(totalmem() / 2 ** 31)))

/** True in `npm run test:quick`, which runs only the tests that need no database and no VM, in less than 90 s. */
const isQuick = Boolean(process.env['MOTE_TEST_QUICK'])
const quick = isQuick ? quickTests() : []

/**
 * Disables V8's optimizing compilers, because most code runs only a few times in tests, so that optimizing it costs
 * more than it saves. This saves 12 to 20 % of the CPU time of test files with a control plane. Files that measure
 * their process keep V8's default.
 */
const unoptimized = ['--no-opt']

export default defineConfig({
  test: {
    // MOTE_TEST_CPU=<file> appends the CPU time of each test file to that file (docs/notes/test-suite-time.md).
    setupFiles: process.env['MOTE_TEST_CPU'] ? ['test/support/cpu-record.ts'] : [],
    globalSetup: isQuick ? [] : ['test/support/global-setup.ts'],
    reporters: ['default', runReport()],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    pool: 'forks',
    sequence: { sequencer: LongestFirst },
    maxWorkers,
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
          execArgv: unoptimized,
          include: all,
          exclude: [
            ...configDefaults.exclude,
            ...(process.env['MOTE_TEST_ALL'] ? [] : filesOnlyInAll),
            ...alone,
            lives,
            anywhere,
            schemathesis,
          ],
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
      { extends: true, test: { name: 'lives', execArgv: unoptimized, include: [lives], sequence: { groupOrder: 1 } } },
      ...(process.env['MOTE_SCHEMATHESIS']
        ? [{ extends: true as const, test: { name: 'schemathesis', include: [schemathesis] } }]
        : []),
      { extends: true, test: { name: 'anywhere', include: [anywhere], sequence: { groupOrder: 2 } } },
    ],
  },
})
