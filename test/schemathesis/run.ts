/**
 * `npm run test:schemathesis [-- options]` installs schemathesis into .cache and runs it over the whole OpenAPI
 * document, against a control plane with simulated hosts and a resource of every kind. `--examples <n>`: number of
 * randomly generated requests per operation (default 5), besides the systematic ones. `--only <regular expression>`:
 * only operations with a matching path. `--seed <n>`: repeats the random requests of an earlier run.
 */
import { spawnSync } from 'node:child_process'
import { parseArgs } from 'node:util'
import { pythonTool } from '../support/python-tool.ts'

const { values: flags } = parseArgs({
  options: { examples: { type: 'string' }, only: { type: 'string' }, seed: { type: 'string' } },
})
const version = '4.32.5'
const tool = pythonTool('schemathesis', version)
if ('missing' in tool) {
  process.stderr.write(`${tool.missing}\n`)
  process.exit(1)
}
const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'schemathesis']
const { status } = spawnSync(process.execPath, vitest, {
  stdio: 'inherit',
  env: {
    ...process.env,
    MOTE_SCHEMATHESIS: tool.bin,
    MOTE_SCHEMATHESIS_OPTIONS: JSON.stringify(flags),
  },
})
process.exitCode = status ?? 1
