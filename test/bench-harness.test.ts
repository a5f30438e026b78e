/**
 * The benchmark harness: alternating measurements, and peers (the programs that Mote is compared with), which start and
 * stop without leftovers or are reported as missing.
 */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Benchmark, Report } from '../bench/benchmark.ts'
import { apart, beside, startPeer } from '../bench/beside.ts'
import { chart } from '../bench/chart.ts'
import { record } from '../bench/record.ts'
import { inTurns } from '../bench/turns.ts'
import { until } from './support/wait.ts'

const isRoot = process.getuid?.() === 0
const sleeper = (script: string) => ({
  needs: ['sh'],
  command: (dir: string) => ['sh', '-c', script, 'sh', dir],
  ready: (dir: string) => stat(join(dir, 'ready')),
})
const recorded = (run: (report: Report) => Promise<void>) => {
  const benchmark: Benchmark = { name: 'of a test', goal: 'none', run }
  const lines: string[] = []
  return record(benchmark, line => lines.push(line)).then(result => ({ result, text: lines.join('\n') }))
}

describe('a peer program', () => {
  test('runs until the benchmark ends, and is then removed with its directory', async () => {
    const cleanup = new AsyncDisposableStack()
    const dir = await startPeer(cleanup, sleeper('echo $$ > "$1/pid"; touch "$1/ready"; exec sleep 600'))
    const pid = (await readFile(join(dir, 'pid'), 'utf8')).trim()
    expect(existsSync(`/proc/${pid}`)).toBe(true)
    await cleanup.disposeAsync()
    expect(existsSync(`/proc/${pid}`)).toBe(false)
    expect(existsSync(dir)).toBe(false)
  })

  test.skipIf(!isRoot)('leaves no mounts or child processes if it runs in its own namespaces', async () => {
    const cleanup = new AsyncDisposableStack()
    const nap = `600.${process.pid}`
    const naps = () =>
      globSync('/proc/[0-9]*/cmdline').filter(file => {
        const words = existsSync(file) ? readFileSync(file, 'utf8').split('\0') : []
        return words[0] === 'sleep' && words[1] === nap
      })
    const mounts = 'mkdir "$1/m" && mount -t tmpfs none "$1/m" && touch "$1/m/inside"'
    const script = `${mounts} && (setsid sleep ${nap} &) && touch "$1/ready" && sleep ${nap}`
    const dir = await startPeer(cleanup, { ...sleeper(''), command: dir => apart(script, dir) })
    await until(() => naps().length === 2, { what: 'both sleep' })
    expect(existsSync(join(dir, 'm', 'inside'))).toBe(false)
    expect(readFileSync('/proc/mounts', 'utf8')).not.toContain(dir)
    await cleanup.disposeAsync()
    expect(existsSync(dir)).toBe(false)
    await until(() => naps().length === 0, { what: 'both processes to end' })
  })

  test('is reported with the reason if it cannot start, and the run continues', async () => {
    const { result, text } = await recorded(async report => {
      await using cleanup = new AsyncDisposableStack()
      const start = (script: string, needs: readonly string[]) => async () => {
        const own = cleanup.use(new AsyncDisposableStack())
        await startPeer(own, { ...sleeper(script), needs })
        return own
      }
      const missing = await beside(report, cleanup, 'missing', start('', ['no-such-program']))
      const broken = await beside(report, cleanup, 'broken', start('echo no socket >&2; exit 3', ['sh']))
      const found = await inTurns(2, { own: async () => 1, peer: missing && (async () => 2) })
      expect([missing, broken, found.peer]).toEqual([undefined, undefined, []])
      report.verdict('own', Math.max(...found.own), 1)
    })
    expect(result.failed).toBeUndefined()
    expect(result.verdicts).toMatchObject([{ what: 'own', met: true }])
    expect(result.absent).toEqual([
      { peer: 'missing', why: 'no-such-program is not installed: npm run bench -- --install-peers' },
      { peer: 'broken', why: 'it did not start: no socket' },
    ])
    expect(text).toContain('WITHOUT missing: no-such-program is not installed')
  })
})

describe('alternating measurements', () => {
  test('warm up all candidates first, and then start each round with a different one', async () => {
    const ran: string[] = []
    const act = (name: string) => async () => ran.push(name)
    const found = await inTurns(2, { a: act('a'), b: act('b') })
    expect(ran.join('')).toBe('baabba')
    expect(found).toEqual({ a: [3, 6], b: [4, 5] })
  })

  test('discard the results of the warm-up time', async () => {
    let ran = 0
    const act = async () => {
      ran++
      await new Promise(resolve => setImmediate(resolve))
      return ran
    }
    const { a } = await inTurns(1, { a: act }, { warmMs: 20 })
    expect(ran).toBeGreaterThan(3)
    expect(a).toEqual([ran])
  })
})

test('a chart shows the expected growth next to the measured one', async () => {
  const points = [
    { at: 1, value: 4 },
    { at: 10, value: 8 },
  ]
  const lines = async (law: 'flat' | 'linear') => {
    const { result } = await recorded(async report =>
      report.growth({ what: 'cost', unit: 'ms', along: 'apps', law, points }),
    )
    const [lawful = '', own = ''] = chart(result)?.match(/<polyline points="[^"]*"/g) ?? []
    const heights = (line: string) => [...line.matchAll(/,([\d.]+)/g)].map(([, y]) => Number(y))
    return { lawful: heights(lawful), own: heights(own) }
  }
  const flat = await lines('flat')
  expect(flat.lawful).toEqual([flat.own[0], flat.own[0]])
  const linear = await lines('linear')
  expect(linear.lawful[1]).toBe(linear.own[1])
  expect(linear.lawful[0]).toBeGreaterThan(linear.own[0] ?? 0)
})
