/**
 * Measures the time in which the agent clones a volume of 1 GiB with 300 MB of data, compared with `cp --reflink` of
 * the same file.
 */
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { dirPool } from '../src/agent/disk/dir-pool.ts'
import { loopFileSystem, whyNoLoop } from '../test/support/agent/disk.ts'
import { run } from '../src/lib/exec.ts'
import type { Benchmark } from './benchmark.ts'

const rounds = 21
const sizeMib = 1024
const filledMib = 300

async function timed(act: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now()
  await act()
  return performance.now() - startedMs
}

async function fill(file: string): Promise<void> {
  const handle = await open(file, 'r+')
  try {
    for (let at = 0; at < filledMib; at++)
      await handle.write(Buffer.alloc(2 ** 20, `${at} `), 0, 2 ** 20, (500 + at) * 2 ** 20)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export const volumeClone: Benchmark = {
  name: 'volume-clone',
  goal: 'a clone of a 1 GiB volume with 300 MB takes at most 1.5 x cp --reflink and sync, and no space',
  covers: ['B21'],
  unable: () => whyNoLoop('xfs'),
  async run(report) {
    const dir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
    try {
      await using place = await loopFileSystem('xfs', dir, 1024)
      const pool = dirPool('local', place.path)
      await pool.create('v', sizeMib)
      const file = await pool.open('v', 1)
      await fill(file)
      await pool.snapshot('v', 's')
      const source = join(place.path, 'v.snapshots', 's.raw')
      const before = await pool.freeBytes()
      const times: { readonly clone: number[]; readonly copy: number[] } = { clone: [], copy: [] }
      for (let n = 0; n < rounds; n++) {
        const copy = join(place.path, `copy-${n}`)
        // Run sync, too, because the agent reports a clone only when it is durable.
        times.copy.push(
          await timed(() => run('cp', ['--reflink=always', source, copy]).then(() => run('sync', [copy, place.path]))),
        )
        times.clone.push(await timed(() => pool.create(`c${n}`, sizeMib, { volumeId: 'v', snapshotId: 's' })))
      }
      const copied = report.samples('cp --reflink and sync', 'ms', times.copy)
      const cloned = report.samples('clone', 'ms', times.clone)
      report.note(
        `disk space for each of ${2 * rounds} clones and copies: ${Math.round((before - (await pool.freeBytes())) / (2 * rounds * 1024))} KiB`,
      )
      report.verdict('time of a clone / time of cp --reflink and sync (medians)', cloned.median / copied.median, 1.5)
    } finally {
      await rm(dir, { recursive: true, force: true })
    }
  },
}
