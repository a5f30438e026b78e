import { readdirSync, statSync } from 'node:fs'
import { appendFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { LogBatch } from '../../contract/agent.ts'
import type { Frame } from '../guest/frames.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import type { LogLimits } from './limit.ts'
import { firstThatFit, toLogLine } from './line.ts'
import { vmLog } from './vm-log.ts'

const wide: LogLimits = { maxBytes: 1 << 20, linesPerSecond: 1e6, bytesPerSecond: 1e9 }

function open(dir: string, limits = wide, nowMs = () => 1_000) {
  const batches: Array<Omit<LogBatch, 'deploymentId'>> = []
  const errors: unknown[] = []
  const publish = async (batch: Omit<LogBatch, 'deploymentId'>) => void batches.push(batch)
  const log = vmLog({ vmId: 'v', dir, limits, nowMs, publish, onError: error => errors.push(error) })
  return { log, batches, errors }
}
const frames = (from: number, to: number, size = 3): Frame[] =>
  Array.from({ length: to - from + 1 }, (_, i) => ({
    seq: from + i,
    stream: 'stdout',
    ageUs: 0,
    line: 'x'.repeat(size),
  }))

test('times of lines strictly increase, batches have at most 256 lines, and lines are acknowledged once they are on disk', async () => {
  await using dir = await testDir()
  const { log, batches } = open(dir.path)
  const acked: number[] = []
  log.frames(1, frames(1, 600), seq => acked.push(seq))
  expect(acked).toEqual([])
  await log.flush()
  expect(acked).toEqual([600])
  expect(batches.map(({ lines }) => lines.length)).toEqual([256, 256, 88])
  const times = batches.flatMap(({ lines }) => lines.map(({ atUs }) => atUs))
  expect(times.every((at, i) => i === 0 || at > (times[i - 1] ?? 0))).toBe(true)
})

test("after a restart and a partial last line, a log continues at its position in the guest's numbering", async () => {
  await using dir = await testDir()
  const first = open(dir.path)
  first.log.frames(1, frames(1, 9), () => undefined)
  first.log.frames(2, frames(1, 4), () => undefined)
  first.log.say('host')
  await first.log.flush()
  await appendFile(join(dir.path, 'log.new'), '170000 o 2')
  const { log, batches } = open(dir.path)
  expect([await log.lastSeq(2), await log.lastSeq(3)]).toEqual([4, 0])
  await log.lastSeq(2)
  log.frames(2, frames(8, 8), () => undefined)
  await log.flush()
  expect(batches[0]?.dropped).toBe(3) // The guest has lost the lines 5, 6 and 7.
  const stored = await log.read({ tail: 100, afterUs: 0 })
  expect(stored.at(-1)).toMatchObject({ boot: 2, seq: 8 })
  expect(batches[0]?.lines[0]?.atUs).toBeGreaterThan(stored.at(-2)?.atUs ?? Number.POSITIVE_INFINITY)
})

test("the disk space of a VM's log is limited, and the newest lines are retained", async () => {
  await using dir = await testDir()
  const { log } = open(dir.path, { ...wide, maxBytes: 8192 })
  for (let n = 0; n < 200; n++) {
    log.frames(1, [{ seq: n + 1, stream: 'stdout', ageUs: 0, line: `line ${n} ${'x'.repeat(100)}` }], () => undefined)
    await log.flush()
  }
  const bytes = readdirSync(dir.path).reduce((sum, name) => sum + statSync(join(dir.path, name)).size, 0)
  expect(bytes).toBeLessThanOrEqual(8192)
  const kept = await log.read({ tail: 1000, afterUs: 0 })
  expect(kept.at(-1)?.line).toContain('line 199 ')
  expect(kept.length).toBeGreaterThan(20)
  expect(await log.read({ tail: 2, afterUs: 0 })).toEqual(kept.slice(-2))
  expect(await log.read({ tail: 9, afterUs: kept.at(-2)?.atUs ?? 0 })).toEqual(kept.slice(-1))
})

test('log lines beyond the rate limit are dropped and counted, and later lines are stored again', async () => {
  await using dir = await testDir()
  let now = 1_000
  const { log, batches } = open(dir.path, { ...wide, linesPerSecond: 10 }, () => now)
  const acked: number[] = []
  log.frames(1, frames(1, 100), seq => acked.push(seq))
  await log.flush()
  expect([batches[0]?.lines.length, batches[0]?.dropped, acked]).toEqual([20, 80, [100]])
  now += 1_000
  log.frames(1, frames(101, 150), () => undefined)
  await log.flush()
  expect([batches[1]?.lines.length, batches[1]?.dropped]).toEqual([10, 40])
})

test('the newest lines after a given time are read from both log files of a VM, without partial lines', async () => {
  await using dir = await testDir()
  const { log } = open(dir.path, { ...wide, maxBytes: 8192 })
  for (let n = 1; n <= 100; n++) {
    log.frames(1, [{ seq: n, stream: 'stdout', ageUs: 0, line: `line ${n} ${'x'.repeat(50)}` }], () => undefined)
    await log.flush()
  }
  await appendFile(join(dir.path, 'log.new'), '170000 o 2')
  const all = await log.read({ tail: 1000, afterUs: 0 })
  expect(readdirSync(dir.path).toSorted()).toEqual(['log.new', 'log.old'])
  expect(all.length).toBeGreaterThan(50)
  expect(all.map(({ seq }) => seq)).toEqual(Array.from(all, (_, i) => 101 - all.length + i))
  expect(await log.read({ tail: 60, afterUs: 0 })).toEqual(all.slice(-60))
  expect(await log.read({ tail: 60, afterUs: all.at(-4)?.atUs ?? 0 })).toEqual(all.slice(-3))
  expect(await log.read({ tail: 0, afterUs: 0 })).toEqual([])
})

test('a response with log lines is smaller than the 1 MiB of a bus message, and says whether there are more lines', () => {
  const lines = Array.from({ length: 200 }, (_, n) => ({
    ...({ atUs: n, stream: 'stdout', boot: 1, seq: n } as const),
    line: '\u0001'.repeat(16_384),
  }))
  const { lines: first, more } = firstThatFit(lines)
  expect(more).toBe(true)
  expect(first.length).toBeGreaterThan(4)
  expect(JSON.stringify(first).length).toBeLessThan(900_000)
  expect(firstThatFit(lines.slice(0, 3))).toEqual({ lines: lines.slice(0, 3).map(toLogLine) })
})
