import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { testDir } from '../testing.ts'
import { dirPool } from './dir-pool.ts'
import type { VolumePool } from './pool.ts'
import { hostVolumes } from './volumes.ts'

/** Every pool keeps the same promises. */
const pools: ReadonlyArray<{ name: string; open: (dir: string) => VolumePool }> = [
  { name: 'dir', open: dir => dirPool('local', join(dir, 'local')) },
]

describe.each(pools)('pool $name', ({ open }) => {
  test('a volume is made once, sparse, and holds an empty ext4', async () => {
    await using dir = await testDir()
    const pool = open(dir.path)
    const file = await pool.ensure('v1', 64)
    expect((await stat(file)).size).toBe(64 << 20)
    expect((await readFile(file)).readUInt16LE(0x438)).toBe(0xef53) // the superblock's magic number (ext4(5))
    const { usedBytes, sizeBytes } = await pool.usage('v1')
    expect(sizeBytes).toBe(64 << 20)
    expect(usedBytes).toBeLessThan(8 << 20)
    await writeFile(file, 'kept')
    expect(await pool.ensure('v1', 64)).toBe(file)
    expect(await readFile(file, 'utf8')).toBe('kept')
  })

  test('snapshots and clones hold what there was, and stay apart', async () => {
    await using dir = await testDir()
    const pool = open(dir.path)
    const file = await pool.ensure('v1', 16)
    await writeFile(file, 'one')
    await pool.snapshot('v1', 's1')
    await writeFile(file, 'two')
    await pool.clone('v1', 's1', 'v2')
    expect(await readFile(await pool.ensure('v2', 16), 'utf8')).toBe('one')
    expect(await readFile(file, 'utf8')).toBe('two')
    await expect(pool.clone('v1', 's1', 'v2')).rejects.toThrow(/already/)
    await pool.remove('v1')
    await pool.remove('v1')
    await expect(pool.usage('v1')).rejects.toThrow()
    await expect(pool.clone('v1', 's1', 'v3')).rejects.toThrow()
    expect(await readFile(await pool.ensure('v2', 16), 'utf8')).toBe('one')
  })

  test.each(['../x', '', 'a/b', '.', '-rf'])('%j is no volume id', async id => {
    await using dir = await testDir()
    await expect(open(dir.path).ensure(id, 16)).rejects.toThrow(/id/)
  })
})

test('an older attachment is refused, by a later agent too', async () => {
  await using dir = await testDir()
  const disk = (generation: number, pool = 'local') => ({
    ...{ volumeId: 'v1', pool, sizeMib: 16, generation, mountPoint: '/data', readOnly: false },
  })
  const volumes = hostVolumes(dir.path)
  const file = await volumes.open(disk(2))
  expect(await volumes.open(disk(2))).toBe(file)
  await volumes.open(disk(3))
  const later = hostVolumes(dir.path)
  await expect(later.open(disk(2))).rejects.toMatchObject({ code: 'stale_volume_generation' })
  expect(await later.open(disk(3))).toBe(file)
  await expect(later.open(disk(4, '../x'))).rejects.toMatchObject({ code: 'no_such_pool' })
})
