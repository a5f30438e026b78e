/** Runs a benchmark and stores its result in `bench/results/<name>.json`. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { cpus, loadavg, release, totalmem } from 'node:os'
import { join } from 'node:path'
import type { Benchmark, Growth, Report, Summary, Unit } from './benchmark.ts'
import { summarise } from './benchmark.ts'
import type { GoalId } from './goals.ts'

export interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly memoryMib: number
  readonly kernel: string
  readonly node: string
}

export interface Measured extends Summary {
  readonly what: string
  readonly unit: Unit
  readonly count: number
}

export interface Verdict {
  readonly what: string
  readonly value: number
  readonly bound: 'most' | 'least'
  readonly limit: number
  readonly met: boolean
  readonly of?: GoalId
}

export interface Result {
  readonly name: string
  readonly goal: string
  readonly at: string
  readonly machine: Machine
  readonly load: { readonly before: number; readonly after: number }
  /** Why the benchmark could not run. */
  readonly unable?: string
  /** Why the benchmark aborted. */
  readonly failed?: string
  readonly measured: readonly Measured[]
  readonly growth: readonly Growth[]
  readonly verdicts: readonly Verdict[]
  readonly notes: readonly string[]
  /** Peers that were not available. */
  readonly absent?: readonly { readonly peer: string; readonly why: string }[]
}

const directory = join(import.meta.dirname, 'results')

const thisMachine = (): Machine => ({
  cpu: cpus()[0]?.model.trim() ?? 'unknown',
  cores: cpus().length,
  memoryMib: Math.round(totalmem() / 2 ** 20),
  kernel: release(),
  node: process.version,
})

const load = () => loadavg()[0] ?? 0
const digits = (value: number) => value.toFixed(value < 10 ? 2 : 1).padStart(9)

/**
 * Runs a benchmark and prints the lines of its result with `say`. If it aborts, the result contains the reason and the
 * measurements so far.
 */
export async function record(benchmark: Benchmark, say: (line: string) => void): Promise<Result> {
  const { name, goal } = benchmark
  const before = load()
  say(`\n${name}: ${goal} (load before: ${before.toFixed(1)})`)
  const measured: Measured[] = []
  const growth: Growth[] = []
  const verdicts: Verdict[] = []
  const notes: string[] = []
  const absent: { peer: string; why: string }[] = []
  const result = (): Result => ({
    name,
    goal,
    at: new Date().toISOString(),
    machine: thisMachine(),
    load: { before, after: load() },
    measured,
    growth,
    verdicts,
    notes,
    absent,
  })
  const unable = await benchmark.unable?.()
  if (unable !== undefined) {
    say(`  not run: ${unable}`)
    return { ...result(), unable }
  }
  const judge = (what: string, value: number, bound: Verdict['bound'], limit: number, of?: GoalId) => {
    const met = bound === 'most' ? value <= limit : value >= limit
    verdicts.push({ what, value, bound, limit, met, ...(of === undefined ? {} : { of }) })
    say(`  ${met ? 'met   ' : 'MISSED'} ${what}: ${value.toFixed(2)} (goal: at ${bound} ${limit})`)
  }
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
    absent(peer, why) {
      absent.push({ peer, why })
      say(`  WITHOUT ${peer}: ${why}`)
    },
    note(text) {
      notes.push(text)
      say(`  ${text}`)
    },
    verdict: (what, value, most, of) => judge(what, value, 'most', most, of),
    atLeast: (what, value, least, of) => judge(what, value, 'least', least, of),
    growth(series) {
      growth.push(series)
      say(
        `  ${series.what}${series.law === undefined ? '' : ` (should be ${series.law})`}: ${series.points.map(({ at, value }) => `${at} ${series.along} ${digits(value).trim()} ${series.unit}`).join(', ')}`,
      )
    },
  }
  // Keep this process alive with a timer while it waits for child processes, because waiting alone does not keep it
  // alive.
  const awake = setInterval(() => undefined, 1000)
  try {
    await benchmark.run(report)
  } catch (error) {
    const failed = error instanceof Error ? error.message : String(error)
    say(`  aborted: ${failed}`)
    return { ...result(), failed }
  } finally {
    clearInterval(awake)
  }
  return result()
}

export async function store(result: Result): Promise<void> {
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, `${result.name}.json`), `${JSON.stringify(result, undefined, 2)}\n`)
}

export async function stored(): Promise<Result[]> {
  const files = (await readdir(directory).catch(() => [])).filter(file => file.endsWith('.json')).toSorted()
  return Promise.all(files.map(async file => JSON.parse(await readFile(join(directory, file), 'utf8')) as Result))
}
