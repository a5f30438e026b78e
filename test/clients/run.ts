/** `npm run test:clients` tests the generated clients of every language whose tools are present or can be installed. */
import { spawnSync } from 'node:child_process'
import { generators } from './generators.ts'

for (const { language, missing } of generators) {
  const why = missing()
  process.stdout.write(`${language}: ${why ?? 'runs'}\n`)
}
const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'all', 'test/clients/clients.test.ts']
const env = { ...process.env, MOTE_TEST_CLIENTS: 'all' }
process.exitCode = spawnSync(process.execPath, vitest, { stdio: 'inherit', env }).status ?? 1
