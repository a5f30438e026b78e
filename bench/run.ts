/** `npm run bench [-- names] [--json]`: runs the benchmarks, all of them or the named ones, one after the other. */
import { loadavg } from 'node:os'
import { audit } from './audit.ts'
import { auth } from './auth.ts'
import { type Benchmark, type Report, summarise } from './benchmark.ts'
import { chaosBenchmark } from './chaos.ts'
import { dashboard } from './dashboard.ts'
import { database } from './database.ts'
import { deployLatency } from './deploy-latency.ts'
import { deployToAnswer } from './deploy-to-answer.ts'
import { forks } from './forks.ts'
import { gateway } from './gateway.ts'
import { loginStorm } from './login-storm.ts'
import { scale } from './scale.ts'
import { secondStart } from './second-start.ts'
import { volumeClone } from './volume-clone.ts'
import { wake } from './wake.ts'

const benchmarks: readonly Benchmark[] = [
  auth,
  loginStorm,
  audit,
  deployLatency,
  deployToAnswer,
  gateway,
  database,
  volumeClone,
  secondStart,
  forks,
  wake,
  dashboard,
  chaosBenchmark,
  scale,
]

const args = process.argv.slice(2)
const json = args.includes('--json')
const names = args.filter(arg => !arg.startsWith('-'))
const unknown = names.filter(name => !benchmarks.some(benchmark => benchmark.name === name))
if (unknown.length > 0) {
  console.error(
    `no benchmark is called ${unknown.join(', ')}; there are: ${benchmarks.map(({ name }) => name).join(', ')}`,
  )
  process.exit(2)
}

const say = (line: string) => (json ? console.error(line) : console.log(line))
const digits = (value: number) => value.toFixed(value < 10 ? 2 : 1).padStart(9)

const results: object[] = []
for (const benchmark of benchmarks.filter(({ name }) => names.length === 0 || names.includes(name))) {
  say(`\n${benchmark.name}: ${benchmark.goal} (load before: ${loadavg()[0]?.toFixed(1)})`)
  const unable = await benchmark.unable?.()
  if (unable !== undefined) {
    say(`  not run: ${unable}`)
    results.push({ name: benchmark.name, goal: benchmark.goal, unable })
    continue
  }
  const measured: object[] = []
  const verdicts: { readonly what: string; readonly value: number; readonly most: number; readonly met: boolean }[] = []
  const report: Report = {
    samples(what, unit, values) {
      const summary = summarise(values)
      measured.push({ what, unit, count: values.length, ...summary })
      const { min, median, p99 } = summary
      say(
        `  ${what.padEnd(34)} min ${digits(min)} ${unit}  median ${digits(median)} ${unit}  p99 ${digits(p99)} ${unit}`,
      )
      return summary
    },
    note: text => say(`  ${text}`),
    verdict(what, value, most) {
      verdicts.push({ what, value, most, met: value <= most })
      say(`  ${value <= most ? 'met   ' : 'MISSED'} ${what}: ${value.toFixed(2)} (goal: at most ${most})`)
    },
  }
  await benchmark.run(report)
  results.push({ name: benchmark.name, goal: benchmark.goal, measured, verdicts })
  if (verdicts.some(({ met }) => !met)) process.exitCode = 1
}
if (json) console.log(JSON.stringify({ node: process.version, results }, undefined, 2))
