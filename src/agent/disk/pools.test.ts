import { chown, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { runsAll } from '../../../test/support/all-examples.ts'
import { fakeLvm } from '../../../test/support/fake-lvm.ts'
import { run } from '../../lib/exec.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { parsePools } from '../base/pool-config.ts'
import { dirPool } from './dir-pool.ts'
import { lvmThinPool } from './lvm-thin-pool.ts'
import { bytesAt, contentSize, digest, fill, mib, text, write } from '../../../test/support/agent/pool-files.ts'
import { kinds, type PoolTest } from '../../../test/support/agent/pool-kinds.ts'

/** The behavior that every kind of pool must have. */
describe.each(kinds)('the pool $name', ({ name, missing, sharesBlocks, countsLate, few, open: openKind }) => {
  const isMissing = missing !== undefined
  // Only partly in `npm test`: the pool of kind dir covers the tests that are not in `few`.
  const hasAll = runsAll || few === undefined
  const it = test.skipIf(isMissing || !hasAll)
  const itOf = (part: PoolTest) => test.skipIf(isMissing || !(hasAll || few.includes(part)))
  const because = missing === undefined ? '' : ` (skipped: ${name} ${missing})`

  itOf('creation')(`a volume is created once, takes almost no space, and has an empty ext4${because}`, async () => {
    await using dir = await testDir()
    await using place = await openKind(dir.path)
    const { pool } = place
    await pool.create('v1', 64)
    const file = await pool.open('v1', 1)
    expect(await contentSize(file)).toBe(64 * mib)
    expect((await bytesAt(file, 0x438, 2)).readUInt16LE()).toBe(0xef53) // the superblock's magic number (ext4(5))
    expect((await pool.usage('v1')).usedBytes).toBeLessThan(32 * mib)
    await write(file, 0, 'kept')
    await pool.create('v1', 64)
    expect(await pool.open('v1', 1)).toBe(file)
    expect(await text(file, 4)).toBe('kept')
    await pool.close('v1')
    await pool.close('v1')
  })

  it(`written data counts as used space${because}`, async () => {
    await using dir = await testDir()
    await using place = await openKind(dir.path)
    const { pool } = place
    await pool.create('v1', 64)
    const before = await pool.usage('v1')
    const file = await pool.open('v1', 1)
    await fill(file, 40 * mib, 60 * mib)
    if (countsLate) {
      await pool.snapshot('v1', 'now')
      await pool.removeSnapshot('v1', 'now')
    }
    const { usedBytes, snapshotBytes } = await pool.usage('v1')
    expect(usedBytes - before.usedBytes).toBeGreaterThanOrEqual(12 * mib)
    expect(usedBytes).toBeLessThanOrEqual(64 * mib)
    expect(snapshotBytes).toBe(0)
    expect(await pool.freeBytes()).toBeGreaterThan(64 * mib)
    await pool.close('v1')
  })

  itOf('snapshots')(
    `snapshots, clones and restored volumes have the bytes of their source and change independently of it${because}`,
    async () => {
      await using dir = await testDir()
      await using place = await openKind(dir.path)
      const { pool } = place
      await pool.create('v1', 16)
      const file = await pool.open('v1', 1)
      await fill(file, 4 * mib, 9 * mib)
      const then = await digest(file)
      await pool.snapshot('v1', 's1')
      await write(file, 5 * mib, 'changed')
      const now = await digest(file)
      expect(now).not.toBe(then)
      // After a crash, the agent takes the snapshot again. The snapshot keeps its first content.
      await pool.snapshot('v1', 's1')
      await pool.create('v2', 16, { volumeId: 'v1', snapshotId: 's1' })
      const clone = await pool.open('v2', 1)
      expect(await digest(clone)).toBe(then)
      await write(clone, 0, 'the clone')
      expect(await digest(file)).toBe(now)
      await pool.close('v1')
      for (const _ of ['once', 'and again after a crash']) await pool.restore('v1', 's1')
      expect(await digest(await pool.open('v1', 2))).toBe(then)
      await pool.close('v1')
      await pool.removeSnapshot('v1', 's1')
      await pool.removeSnapshot('v1', 's1')
      await expect(pool.restore('v1', 's1')).rejects.toMatchObject({ code: 'snapshot_missing' })
      await expect(pool.create('v3', 16, { volumeId: 'v1', snapshotId: 's1' })).rejects.toMatchObject({
        code: 'snapshot_missing',
      })
      expect(await digest(await pool.open('v1', 2))).toBe(then)
      await pool.close('v1')
      await pool.close('v2')
    },
  )

  it(`a volume grows while it is open, never shrinks, and keeps its content${because}`, async () => {
    await using dir = await testDir()
    await using place = await openKind(dir.path)
    const { pool } = place
    await pool.create('v1', 32)
    await write(await pool.open('v1', 1), 20 * mib, 'kept')
    await pool.snapshot('v1', 's1')
    for (const _ of ['once', 'and again after a crash']) await pool.grow('v1', 48)
    await pool.grow('v1', 16)
    const file = await pool.open('v1', 1)
    expect(await contentSize(file)).toBe(48 * mib)
    expect((await bytesAt(file, 20 * mib, 4)).toString()).toBe('kept')
    await pool.close('v1')
    // Growing a volume changes neither its snapshots, nor clones and volumes that are restored from them.
    await pool.restore('v1', 's1')
    expect(await contentSize(await pool.open('v1', 2))).toBe(32 * mib)
    await pool.grow('v1', 48)
    expect(await contentSize(await pool.open('v1', 2))).toBe(48 * mib)
    await pool.close('v1')
    await expect(pool.grow('v2', 48)).rejects.toMatchObject({ code: 'volume_missing' })
  })

  it(`a volume is removed with its snapshots, and a clone is unaffected${because}`, async () => {
    await using dir = await testDir()
    await using place = await openKind(dir.path)
    const { pool } = place
    await pool.create('v1', 16)
    await write(await pool.open('v1', 1), 100, 'one')
    await pool.close('v1')
    for (const id of ['s1', 's2']) await pool.snapshot('v1', id)
    await pool.create('v2', 16, { volumeId: 'v1', snapshotId: 's1' })
    await pool.remove('v1')
    await pool.remove('v1')
    await expect(pool.open('v1', 1)).rejects.toMatchObject({ code: 'volume_missing' })
    expect((await bytesAt(await pool.open('v2', 1), 100, 3)).toString()).toBe('one')
    await pool.close('v2')
    await pool.remove('v2')
    expect(await place.names()).toEqual([])
  })

  const itIfShared = sharesBlocks ? itOf('shared blocks') : test.skip
  itIfShared(`a snapshot of a large volume takes almost no space${because}`, async () => {
    await using dir = await testDir()
    await using place = await openKind(dir.path)
    const { pool } = place
    await pool.create('v1', 96)
    const file = await pool.open('v1', 1)
    await fill(file, 16 * mib, 80 * mib)
    const before = await pool.freeBytes()
    for (const id of ['s1', 's2', 's3']) await pool.snapshot('v1', id)
    await pool.create('v2', 96, { volumeId: 'v1', snapshotId: 's2' })
    expect(before - (await pool.freeBytes())).toBeLessThan(24 * mib)
    await pool.close('v1')
  })

  it(`ids that would lead to a path outside the pool are refused${because}`, async () => {
    await using dir = await testDir()
    await using place = await openKind(dir.path)
    for (const id of ['../x', '', 'a/b', '.', '-rf']) {
      await expect(place.pool.create(id, 16)).rejects.toThrow(/id/)
      await expect(place.pool.snapshot('v1', id)).rejects.toThrow(/id/)
      await expect(place.pool.remove(id)).rejects.toThrow(/id/)
    }
  })
})

describe('a new volume in a directory pool', () => {
  test.skipIf(process.getuid?.() !== 0)('starts with the content and owners of a directory (needs root)', async () => {
    await using dir = await testDir()
    const directory = join(dir.path, 'content')
    await mkdir(join(directory, 'below'), { recursive: true })
    await writeFile(join(directory, 'below', 'file'), 'from the image')
    for (const path of [directory, join(directory, 'below')]) await chown(path, 999, 998)
    const pool = dirPool('local', join(dir.path, 'pool'))
    await pool.create('v1', 64, { directory })
    const file = await pool.open('v1', 1)
    const debugfs = (command: string) => run('debugfs', ['-R', command, file])
    expect(await debugfs('cat /below/file')).toBe('from the image')
    for (const path of ['/', '/below']) expect(await debugfs(`stat ${path}`)).toMatch(/User:\s+999\s+Group:\s+998/)
  })
})

describe('the pool lvm-thin', () => {
  test('finishes a restore that a crash interrupted when the next operation accesses the volume', async () => {
    await using dir = await testDir()
    const lvm = fakeLvm(join(dir.path, 'dev'))
    const cut = { before: '' }
    const run = async (program: string, args: readonly string[]) => {
      if (program === cut.before) throw new Error('the power went')
      return lvm.run(program, args)
    }
    const pool = lvmThinPool({ name: 'fast', group: 'vg', thinPool: 'pool', run, devDir: join(dir.path, 'dev') })
    await pool.create('v1', 16)
    await write(await pool.open('v1', 1), 0, 'then')
    await pool.snapshot('v1', 's1')
    await write(await pool.open('v1', 1), 0, 'now!')
    for (const [program, content] of [
      ['lvremove', 'now!'],
      ['lvrename', 'then'],
    ] as const) {
      cut.before = program
      await expect(pool.restore('v1', 's1')).rejects.toThrow('the power went')
      cut.before = ''
      expect(await text(await pool.open('v1', 2), 4)).toBe(content)
    }
    await pool.restore('v1', 's1')
    expect(lvm.names().sort()).toEqual(['s.v1.s1', 'v.v1'])
  })
})

describe('the pool setting of an agent', () => {
  test('is parsed to the name, kind and place of each pool', () => {
    expect(parsePools('local=dir, fast=dir:/mnt/nvme')).toEqual([
      { name: 'local', kind: 'dir', place: '' },
      { name: 'fast', kind: 'dir', place: '/mnt/nvme' },
    ])
    expect(parsePools('fast=lvm-thin:vg/pool,cluster=rbd:volumes@mote')).toEqual([
      { name: 'fast', kind: 'lvm-thin', place: 'vg/pool' },
      { name: 'cluster', kind: 'rbd', place: 'volumes@mote' },
    ])
    expect(parsePools('safe=dir-luks')).toEqual([{ name: 'safe', kind: 'dir-luks', place: '' }])
    expect(parsePools('')).toEqual([])
  })
  test.each([
    'local',
    'local=',
    'local=tape',
    'Local=dir',
    '../x=dir',
    'a=dir,a=dir:/b',
    'a=dir:',
    'a=lvm-thin:vg',
    'a=lvm-thin',
    'a=rbd',
    'a=rbd:x/y',
  ])('is refused if it is %j', setting => {
    expect(() => parsePools(setting)).toThrow()
  })
})

test('measuring the space of a volume succeeds while its snapshots are being removed', async () => {
  await using dir = await testDir()
  const pool = dirPool('local', dir.path)
  await pool.create('v1', 16)
  const names = Array.from({ length: 40 }, (_, n) => `s${n}`)
  await mkdir(join(dir.path, 'v1.snapshots'))
  for (const name of names) await writeFile(join(dir.path, 'v1.snapshots', `${name}.raw`), name)
  const asked = Array.from({ length: 40 }, () => pool.usage('v1'))
  const removed = names.map(name => pool.removeSnapshot('v1', name))
  for (const { snapshotBytes } of await Promise.all(asked)) expect(snapshotBytes).toBeGreaterThanOrEqual(0)
  await Promise.all(removed)
  expect((await pool.usage('v1')).snapshotBytes).toBe(0)
})
