import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
let dir = ''
beforeAll(async () => {
  // Use a directory below the checkout, so that `import 'vitest'` can be resolved.
  dir = await mkdtemp(join(root, 'node_modules', '.run-report-'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

const endings = [
  { ending: 'passes', setup: '', test: '', code: 0 },
  { ending: 'has a test that fails', setup: '', test: `throw new Error('no')`, code: 1 },
  { ending: 'has a set-up that throws', setup: `throw new Error('no')`, test: '', code: 1 },
  { ending: 'has a set-up that never ends', setup: 'await new Promise(() => {})', test: '', code: 1 },
]

it.each(endings)('a test run that $ending exits with code $code', async ({ ending, setup, test, code }) => {
  const at = (name: string) => join(dir, `${ending.replaceAll(' ', '-')}.${name}`)
  await writeFile(at('setup.mjs'), `export default async () => { ${setup} }`)
  await writeFile(at('test.mjs'), `import { it } from 'vitest'; it('a', () => { ${test} }); it('b', () => {})`)
  await writeFile(
    at('config.mjs'),
    `import { runReport } from ${JSON.stringify(join(root, 'test/support/run-report.ts'))}
     export default { test: { globalSetup: ['${at('setup.mjs')}'], include: ['${at('test.mjs')}'], reporters: [runReport()] } }`,
  )
  const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
  const { promise, resolve } = Promise.withResolvers<{ code: number; output: string }>()
  execFile(process.execPath, [vitest, 'run', '--root', dir, '--config', at('config.mjs')], (error, stdout, stderr) =>
    resolve({ code: Number(error?.code ?? 0), output: stdout + stderr }),
  )
  const ended = await promise
  expect(ended.code, ended.output).toBe(code)
})
