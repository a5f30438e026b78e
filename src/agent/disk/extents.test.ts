import { execFile } from 'node:child_process'
import { mkdtempDisposable, open, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { dataRanges, digestSparse, parseExtents } from './extents.ts'

const mib = 1 << 20

async function sparse(dir: string, name: string, parts: readonly (readonly [number, string])[]): Promise<string> {
  const path = join(dir, name)
  const file = await open(path, 'w')
  await file.truncate(64 * mib)
  for (const [at, text] of parts) await file.write(text, at)
  await file.sync()
  await file.close()
  return path
}

it('exactly the data ranges of a sparse file are found, without its holes', async () => {
  await using temp = await mkdtempDisposable(join(tmpdir(), 'mote-extents-'))
  const path = await sparse(temp.path, 'a', [
    [5 * mib + 7, 'five'],
    [40 * mib, 'forty'],
  ])
  const ranges = await dataRanges(path)
  for (const at of [5 * mib + 7, 40 * mib]) expect(ranges.some(({ start, end }) => start <= at && at < end)).toBe(true)
  expect(ranges.reduce((sum, { start, end }) => sum + end - start, 0)).toBeLessThan(mib)
})

it('the digest of a sparse file depends on every nonzero byte, but not on whether zeros are stored or holes', async () => {
  await using temp = await mkdtempDisposable(join(tmpdir(), 'mote-extents-'))
  const path = await sparse(temp.path, 'a', [[5 * mib + 7, 'five']])
  const copy = join(temp.path, 'copy')
  await promisify(execFile)('cp', ['--sparse=never', path, copy])
  expect(await digestSparse('x', copy)).toEqual(await digestSparse('x', path))
  const all = [await digestSparse('y', path)]
  const other = [
    await sparse(temp.path, 'b', [[5 * mib + 8, 'five']]),
    await sparse(temp.path, 'c', [[6 * mib + 7, 'five']]),
    await sparse(temp.path, 'd', [
      [5 * mib + 7, 'five'],
      [64 * mib - 1, '!'],
    ]),
  ]
  await truncate(copy, 63 * mib)
  for (const one of [path, copy, ...other]) all.push(await digestSparse('x', one))
  expect(new Set(all.map(digest => digest.toString('hex'))).size).toBe(all.length)
})

it('an empty file has no data range, and a file without holes is one data range', async () => {
  await using temp = await mkdtempDisposable(join(tmpdir(), 'mote-extents-'))
  const empty = join(temp.path, 'empty')
  await writeFile(empty, '')
  expect(await dataRanges(empty)).toEqual([])
  const full = join(temp.path, 'full')
  await writeFile(full, Buffer.alloc(3 * mib, 1))
  const ranges = await dataRanges(full)
  expect(ranges[0]?.start).toBe(0)
  expect(ranges.at(-1)?.end).toBe(3 * mib)
})

it.each([
  ['an empty list of extents', ''],
  ['a list of extents that was cut short', '   0:        0..    4095:  1..  2:   4096:\n'],
  ['a list of extents without its beginning', '   7:        0..    4095:  1..  2:   4096:  last\n'],
])('%s is rejected', (_, listed) => {
  expect(parseExtents(listed, 4096)).toBeUndefined()
})
