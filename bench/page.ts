/** Renders `docs/benchmarks.md` and its charts from the stored results of benchmarks. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Benchmark } from './benchmark.ts'
import { chart, figure } from './chart.ts'
import { type Goal, type GoalId, goals } from './goals.ts'
import type { Machine, Result, Verdict } from './record.ts'

const docs = join(import.meta.dirname, '..', 'docs')

/** A benchmark and the result of its last run; undefined if no result is stored. */
interface Entry {
  readonly benchmark: Benchmark
  readonly result: Result | undefined
}

const machineText = ({ cpu, cores, memoryMib, kernel, node }: Machine) =>
  `${cpu}, ${cores} cores, ${Math.round(memoryMib / 1024)} GiB, Linux ${kernel}, Node ${node}`

const shown = ({ what, value, bound, limit }: Verdict) =>
  `${what}: ${figure(value)} (goal: at ${bound} ${figure(limit)})`

/**
 * Returns the verdicts of a benchmark for a goal: those that the benchmark assigns to the goal, or all if it assigns
 * its verdicts to no goal.
 */
function verdictsOf(id: GoalId, { result }: Entry): Verdict[] {
  const all = result?.verdicts ?? []
  return all.some(({ of }) => of !== undefined) ? all.filter(({ of }) => of === id) : [...all]
}

function row(id: GoalId, entries: readonly Entry[]): string {
  const { work, beside, goal, growth, notRun }: Goal = goals[id]
  const covering = entries.filter(({ benchmark }) => benchmark.covers?.includes(id))
  const verdicts = covering.flatMap(entry => verdictsOf(id, entry))
  const without = covering.flatMap(({ result }) =>
    (result?.absent ?? []).map(({ peer, why }) => `without ${peer}: ${why}`),
  )
  const reasons = covering.flatMap(({ benchmark, result }) =>
    result === undefined ? [`${benchmark.name} has not been run`] : (result.unable ?? []),
  )
  const missed = verdicts.filter(({ met }) => !met).length
  const verdict =
    verdicts.length === 0
      ? `not run: ${notRun ?? (reasons.join('; ') || 'no benchmark decides it')}`
      : missed === 0
        ? '**met**'
        : `**missed** (${missed} of ${verdicts.length})`
  const names = covering.map(({ benchmark: { name } }) => `[\`${name}\`](#${name})`).join(', ')
  return `| ${id} | ${work} | ${beside} | ${goal} | ${growth} | ${[...verdicts.map(shown), ...without].join('; ') || '-'} | ${verdict} | ${names || '-'} |`
}

function section({ benchmark, result }: Entry): string {
  const { name, goal, how, reading } = benchmark
  const parts = [`### \`${name}\``, `**Goal of \`${name}\`**: ${goal}.`]
  if (how !== undefined) parts.push(`**Method of \`${name}\`**: ${how}`)
  if (result === undefined) parts.push('**Not run yet.**')
  else if (result.unable !== undefined) parts.push(`**Not run**: ${result.unable}`)
  else {
    if (chart(result) !== undefined) parts.push(`![Results](charts/${name}.svg)`)
    if (result.verdicts.length > 0)
      parts.push(result.verdicts.map(one => `- ${one.met ? 'Met' : '**Missed**'}: ${shown(one)}`).join('\n'))
    if (result.failed !== undefined) parts.push(`**Aborted**: ${result.failed}`)
    for (const { peer, why } of result.absent ?? []) parts.push(`**Without ${peer}**: ${why}.`)
    if (result.notes.length > 0) parts.push(result.notes.map(note => `> ${note}`).join('\n>\n'))
    if (reading !== undefined) parts.push(`**Explanation of the results of \`${name}\`**: ${reading}`)
    const { before, after } = result.load
    parts.push(
      `\`${name}\` was measured on ${result.at.slice(0, 16).replace('T', ' ')} UTC. The load average was ${before.toFixed(1)} before and ${after.toFixed(1)} after the run.`,
    )
  }
  return parts.join('\n\n')
}

/** Writes `docs/benchmarks.md` and one SVG for each result. */
export async function writePage(benchmarks: readonly Benchmark[], results: readonly Result[]): Promise<void> {
  const entries = benchmarks.map(benchmark => ({
    benchmark,
    result: results.find(({ name }) => name === benchmark.name),
  }))
  await mkdir(join(docs, 'charts'), { recursive: true })
  for (const result of results) {
    const svg = chart(result)
    if (svg !== undefined) await writeFile(join(docs, 'charts', `${result.name}.svg`), svg)
  }
  const ids = Object.keys(goals) as GoalId[]
  const loads = results.map(({ load }) => load.before)
  const machines = [...new Set(results.map(({ machine }) => machineText(machine)))]
  const page = `# Benchmarks

This page shows the results of Mote's benchmarks. \`npm run bench -- --page\` writes it from \`bench/results\`; do not edit it. Each benchmark is one file in \`bench/\`. Within one run, it alternates between
Mote and a comparable program or a minimal program for the same work, so that other load affects both equally. Compare the ratios;
absolute times depend on the computer. The results are from these computers: ${machines.join('; ') || 'none yet'}. **The computers were busy with other work during the runs: the load
was ${figure(Math.min(...loads))} to ${figure(Math.max(...loads))}.** Other load increases the times, and the ratios to programs that wait less often than Mote, but not CPU time and memory.

\`npm run bench\` runs all benchmarks, \`npm run bench -- <name>\` one of them, \`npm run bench -- --list\` lists them, and \`npm run bench -- --install-peers\` installs the programs for comparison. [Scale](scale.md)
estimates from the results what a thousand hosts need.

## Goals

| goal | operation | compared with | required | allowed growth of time or memory | measured | result | benchmark |
|---|---|---|---|---|---|---|---|
${ids.map(id => row(id, entries)).join('\n')}

## Each benchmark

In the charts, bars show medians, and whiskers the 99th percentile.

${entries.map(section).join('\n\n')}
`
  await writeFile(join(docs, 'benchmarks.md'), page)
}
