/**
 * `npm run bench [-- names] [--json]` runs all benchmarks, or the named ones, one after the other, and stores their
 * results. `--list` lists them. `--page` writes docs/benchmarks.md. `--install-peers` runs apt-get install.
 */
import { parseArgs } from 'node:util'
import { benchmarks } from './list.ts'
import { writePage } from './page.ts'
import { installPeers } from './peers.ts'
import { record, type Result, store, stored } from './record.ts'

const { values: flags, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    page: { type: 'boolean', default: false },
    'install-peers': { type: 'boolean', default: false },
    /** Duration of the soak benchmark. */
    minutes: { type: 'string' },
  },
})
if (flags.minutes !== undefined) process.env['MOTE_SOAK_MINUTES'] = flags.minutes

const unknown = names.filter(name => !benchmarks.some(benchmark => benchmark.name === name))
if (unknown.length > 0) {
  console.error(
    `no benchmark is called ${unknown.join(', ')}; there are: ${benchmarks.map(({ name }) => name).join(', ')}`,
  )
  process.exit(2)
}

if (flags['install-peers'] && !(await installPeers())) process.exit(1)
if (flags.list)
  for (const { name, covers = [], goal } of benchmarks)
    console.log(`${name.padEnd(18)} ${covers.join(' ').padEnd(8)} ${goal}`)
const runs = names.length > 0 || !(flags.list || flags.page || flags['install-peers'])

const say = (line: string) => (flags.json ? console.error(line) : console.log(line))
const chosen = benchmarks.filter(({ name, onlyByName }) => (names.length === 0 ? !onlyByName : names.includes(name)))
const results: Result[] = []
for (const benchmark of runs ? chosen : []) {
  const result = await record(benchmark, say)
  await store(result)
  results.push(result)
  if (result.failed !== undefined || result.verdicts.some(({ met }) => !met)) process.exitCode = 1
}
if (flags.json) console.log(JSON.stringify({ node: process.version, results }, undefined, 2))
if (flags.page) await writePage(benchmarks, await stored())
