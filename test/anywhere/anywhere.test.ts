// Not repeated on the distribution's PostgreSQL: this file starts its own database.
/**
 * Runs the README's first command on a fresh test system of cells.ts: a different one each day. `npm run test:anywhere`
 * tests all of them.
 */
import { expect, it } from 'vitest'
import { run } from '../../src/lib/exec.ts'
import { runCell } from './cell.ts'
import { missingHere } from './here.ts'
import { cellInTurn } from './turn.ts'

const limitMs = 25 * 60_000

const isOffline = () =>
  // Request a package instead of `npm ping`, which mirrors may not answer.
  run('npm', ['view', 'npm', 'version', '--loglevel=error'], { timeoutMs: 30_000 }).then(
    () => false,
    () => true,
  )

it(
  "the README's first command works on a fresh Debian",
  async ({ skip, signal }) => {
    const missing = (await missingHere()) ?? ((await isOffline()) ? 'the npm registry does not answer' : undefined)
    if (missing !== undefined) return skip(`no test system can run here: ${missing}`)
    const lines: string[] = []
    const { failed } = await runCell(cellInTurn(new Date()), line => void lines.push(line), signal)
    expect(failed, lines.join('\n')).toBeNull()
  },
  limitMs,
)
