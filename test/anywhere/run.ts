/**
 * `npm run test:anywhere [-- options]` tests the systems of cells.ts one after the other, because each test starts VMs
 * on all cores. `--list` lists the systems. `--only <pattern>` selects systems by name. `--cells a,b` selects the named
 * systems. `--json` prints the results. `--table` stores the results and writes them to docs/anywhere.md and the README.
 * `--suite` runs the README's second command, `npm test`, instead of the commands of a new user (journey.ts). `--no-kvm`
 * hides /dev/kvm.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type CellResult, runCell } from './cell.ts'
import { type Cell, cells } from './cells.ts'
import { missingHere } from './here.ts'
import { documents, merged, resultsFile, storedResults } from './table.ts'

const { values: flags } = parseArgs({
  options: {
    list: { type: 'boolean', default: false },
    only: { type: 'string' },
    cells: { type: 'string' },
    json: { type: 'boolean', default: false },
    table: { type: 'boolean', default: false },
    suite: { type: 'boolean', default: false },
    'no-kvm': { type: 'boolean', default: false },
  },
})

const say = (line: string) => void (flags.json ? process.stderr : process.stdout).write(`${line}\n`)
const firstLine = (text: string) => text.split('\n')[0] ?? ''
const fail = (line: string, code: number) => {
  process.stderr.write(`${line}\n`)
  process.exit(code)
}

const named = flags.cells?.split(',')
const unknown = named?.filter(name => !cells.some(cell => cell.name === name)) ?? []
if (unknown.length > 0) fail(`There is no test system named ${unknown.join(', ')}; --list shows them all.`, 2)
const pattern = new RegExp(flags.only ?? '')
const isWanted = ({ name }: Cell) => (named?.includes(name) ?? true) && pattern.test(name)
const wanted = cells.filter(isWanted)
if (wanted.length === 0) fail(`No test system matches ${flags.only}; --list shows them all.`, 2)

if (flags.list) for (const { name } of wanted) process.stdout.write(`${name}\n`)
else await runAll()

async function writeDocuments(results: readonly CellResult[]): Promise<void> {
  const all = merged(storedResults(), results)
  await writeFile(resultsFile, `${JSON.stringify(all, undefined, 2)}\n`)
  for (const [file, rendered] of Object.entries(documents)) {
    const path = fileURLToPath(new URL(`../../${file}`, import.meta.url))
    await writeFile(path, rendered(await readFile(path, 'utf8'), all))
  }
}

async function runAll(): Promise<void> {
  const missing = await missingHere()
  if (missing !== undefined) fail(`The test systems cannot run here: ${missing}`, 1)
  const stop = new AbortController()
  const onSignal = (signal: NodeJS.Signals) => stop.abort(new Error(`stopped by ${signal}`))
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal)
  const results: CellResult[] = []
  for (const cell of wanted) {
    if (stop.signal.aborted) break
    const result = await runCell(cell, say, stop.signal, { suite: flags.suite, kvm: !flags['no-kvm'] })
    if (!stop.signal.aborted) results.push(result)
  }
  const failed = results.filter(result => result.failed !== null)
  for (const { cell, seconds, outcome, failed: why } of results)
    say(
      `${outcome.padEnd(8)} ${cell.padEnd(32)} ${seconds.toFixed(0).padStart(5)} s  ${firstLine(why ?? '')}`.trimEnd(),
    )
  if (flags.table && !flags.suite) await writeDocuments(results)
  if (flags.json) process.stdout.write(`${JSON.stringify(results, undefined, 2)}\n`)
  process.exitCode = failed.length > 0 || stop.signal.aborted ? 1 : 0
}
