/** Renders the results of the latest runs (results.json) for docs/anywhere.md and the README. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import type { CellResult } from './cell.ts'
import { type Cell, cells, type Distribution, distributions, places } from './cells.ts'
import { oddityOf } from './oddities.ts'

const Stored = Type.Array(
  Type.Object({
    cell: Type.String(),
    outcome: Type.Union([Type.Literal('works'), Type.Literal('refuses'), Type.Literal('fails')]),
    /** Name of the step that failed; null if none failed. */
    failed: Type.Union([Type.String(), Type.Null()]),
    /** Time from the first run of the README's command to the demo app's first response; then for the second run. */
    coldSeconds: Type.Union([Type.Number(), Type.Null()]),
    warmSeconds: Type.Union([Type.Number(), Type.Null()]),
  }),
)
export type StoredResult = Type.Static<typeof Stored>[number]

export const resultsFile = fileURLToPath(new URL('./results.json', import.meta.url))

/** Reads results.json. @throws Error if it contains anything else */
export function storedResults(): StoredResult[] {
  const parsed: unknown = JSON.parse(readFileSync(resultsFile, 'utf8'))
  if (!Value.Check(Stored, parsed)) throw new Error(`${resultsFile} does not contain results`)
  return parsed
}

/** Merges the results of a run into the stored ones, in the order of the list of test systems. */
export function merged(stored: readonly StoredResult[], run: readonly CellResult[]): StoredResult[] {
  const all = new Map([...stored, ...run.map(toStored)].map(result => [result.cell, result]))
  return cells.flatMap(({ name }) => all.get(name) ?? [])
}

function toStored({ cell, outcome, failed, steps }: CellResult): StoredResult {
  const secondsOf = (wanted: string) => steps.find(({ name }) => name === wanted)?.seconds ?? null
  return {
    cell,
    outcome,
    failed: failed === null ? null : (failed.split(': ')[0] ?? failed),
    coldSeconds: secondsOf('cold: answer'),
    warmSeconds: secondsOf('warm: answer'),
  }
}

export function cellTable(results: readonly StoredResult[]): string {
  const resultOf = new Map(results.map(result => [result.cell, result]))
  const seconds = (value: number | null | undefined) =>
    typeof value === 'number' ? `the app responds after ${value.toFixed(0)} s` : 'not measured'
  const rows = cells.map(cell => {
    const result = resultOf.get(cell.name)
    const columns = [...about(cell), verdict(result), seconds(result?.coldSeconds), seconds(result?.warmSeconds)]
    return `| ${columns.join(' | ')} |`
  })
  const head = [
    'system',
    'Node',
    'user and folder',
    'name of the folder',
    'result of `npm run demo`',
    'time of its first run',
    'time of its second run',
  ]
  return [`| ${head.join(' | ')} |`, `|${head.map(() => '---|').join('')}`, ...rows].join('\n')
}

function verdict(result: StoredResult | undefined): string {
  if (result === undefined) return 'not run'
  return { works: 'works', refuses: 'stops with instructions', fails: `fails at "${result.failed}"` }[result.outcome]
}

function about({ distribution, node, place, path, odd }: Cell): string[] {
  const system = odd === null ? distributions[distribution] : `${distributions[distribution]}, ${oddityOf(odd).about}`
  return [
    system,
    node === 'newer' ? 'newer Node' : "the distribution's Node",
    places[place],
    path === 'plain' ? 'ASCII only' : 'with a space and an umlaut',
  ]
}

/** Returns the README's sentence about tested distributions; if not all systems of one work, with their count. */
export function testedSentence(results: readonly StoredResult[]): string {
  const working = new Set(results.filter(({ outcome }) => outcome === 'works').map(({ cell }) => cell))
  const names = (Object.keys(distributions) as Distribution[]).flatMap(distribution => {
    const usual = cells.filter(cell => cell.odd === null && cell.distribution === distribution)
    const count = usual.filter(({ name }) => working.has(name)).length
    if (count === 0) return []
    return [
      count === usual.length
        ? distributions[distribution]
        : `${distributions[distribution]} (${count} of ${usual.length} systems)`,
    ]
  })
  const tested = names.length === 0 ? 'no release yet' : listed(names)
  return `[Tested](docs/anywhere.md) on ${tested}; not on Ubuntu.`
}

function listed(names: readonly string[]): string {
  const short = names.map((name, n) => (n === 0 ? name : name.replace(/^Debian /, '')))
  return short.length === 1 ? (short[0] ?? '') : `${short.slice(0, -1).join(', ')} and ${short.at(-1)}`
}

/** Replaces the text between two HTML comments. @throws Error if the text lacks them */
export function between(text: string, marker: string, content: string): string {
  const [start, end] = [`<!-- ${marker} -->`, `<!-- /${marker} -->`]
  const [from, to] = [text.indexOf(start), text.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`the markers ${start} and ${end} are missing`)
  return text.slice(0, from + start.length) + content + text.slice(to)
}

/** Functions that replace the generated text of a document, by the document's path. */
export const documents = {
  'docs/anywhere.md': (text: string, results: readonly StoredResult[]) =>
    between(text, 'cells', `\n${cellTable(results)}\n`),
  'README.md': (text: string, results: readonly StoredResult[]) => between(text, 'tested', testedSentence(results)),
} as const
