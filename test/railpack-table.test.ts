import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { admits } from '../scripts/railpack/compare.ts'
import { railpackTable } from '../scripts/railpack-table.ts'

const snapshot = (example: string) => `core/__snapshots__/TestGenerateBuildPlanForExamples_${example}_1.snap.json`
const planOf = (tools: string, install: readonly string[], startCommand: string) =>
  JSON.stringify({
    deploy: { startCommand },
    steps: [
      { name: 'packages:mise', commands: [{ cmd: 'mise install', customName: `install mise packages: ${tools}` }] },
      { name: 'install', commands: install.map(cmd => ({ cmd })) },
    ],
  })

async function checkoutOf(files: Readonly<Record<string, string>>): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'mote-railpack-'))
  onTestFinished(() => rm(root, { recursive: true }))
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true })
    await writeFile(join(root, path), text)
  }
  return root
}

test("each Railpack example has a row with the differences between Railpack's build plan and Mote's", async () => {
  const own = JSON.stringify({ scripts: { start: 'node a.js' }, dependencies: { a: '1' } })
  const root = await checkoutOf({
    'examples/agrees/package.json': own,
    'examples/agrees/test.json': '[{"expectedOutput": "Node v24.1.0"},]',
    [snapshot('agrees')]: planOf('node', ['mkdir -p /app/node_modules/.cache', 'npm install'], 'npm run start'),
    'examples/differs/package.json': own,
    'examples/differs/.nvmrc': '20\n',
    'examples/differs/test.json': '[{"expectedOutput": "Node v24.1.0"}]',
    [snapshot('differs')]: planOf('node', ['npm install', 'npm rebuild'], 'node b.js'),
    'examples/needs-dockerfile/gleam.toml': '',
    'examples/needs-dockerfile/test.json': '[]',
    [snapshot('needs-dockerfile')]: planOf(
      'gleam, erlang',
      ['gleam export erlang-shipment'],
      './build/erlang-shipment/entrypoint.sh run',
    ),
    'examples/refused/README.md': '',
    'examples/refused/test.json': '[]',
    [snapshot('refused')]: planOf('node', [], 'node a.js'),
  })
  const table = railpackTable(root)
  expect(table).toContain('2 of 4 plans agree; Mote builds 1 of them, the other 1 need a Dockerfile.')
  expect(table).toContain('| agrees | node | node 24, npm bundled; `npm run start` | agrees |')
  expect(table).toContain('node 20, expected 24.1.0; lacks `npm rebuild`; starts `npm run start`, expected `node b.js`')
  expect(table).toContain(
    '| needs-dockerfile | gleam | gleam latest, erlang 27; `./build/erlang-shipment/entrypoint.sh run` | agrees; needs a Dockerfile |',
  )
  expect(table).toContain('| refused | node | - | refused: The repository has no known build method.')
})

test.each([
  ['20', '20.11.1', true],
  ['20.11.1', '20', true],
  ['20', '22', false],
  ['>=18 <21', '20', true],
  ['>=18 <20', '20', false],
  ['^3.8', '3.11', true],
  ['~3.8', '3.11', false],
  ['16 || 18', '18.20', true],
  ['latest', '2', true],
])('the requested version %s admits a program that prints %s: %s', (wanted, printed, fits) => {
  expect(admits(wanted, printed)).toBe(fits)
})
