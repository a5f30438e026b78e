import { describe, expect, test } from 'vitest'
import type { DiskSpec, SnapshotDisk } from '../../contract/agent.ts'
import { obstacleOf } from './origin.ts'

const then = (change: Partial<SnapshotDisk> = {}): SnapshotDisk => ({
  volumeId: 'vol-1',
  generation: 4,
  mountPoint: '/data',
  readOnly: false,
  copied: false,
  ...change,
})
const now = (change: Partial<DiskSpec> = {}): DiskSpec => ({
  volumeId: 'vol-1',
  pool: 'local',
  sizeMib: 32,
  generation: 5,
  mountPoint: '/data',
  readOnly: false,
  ...change,
})

test('a sleeping VM is restored from its snapshot if no other VM has had its volume attached as writable since then', () => {
  expect(obstacleOf([then()], [now()], 'asleep')).toBeUndefined()
  const reader = { readOnly: true, generation: 4 }
  expect(obstacleOf([then(reader)], [now(reader)], 'asleep')).toBeUndefined()
})

test.each([
  ['its volume had another writer', [then()], [now({ generation: 6 })]],
  ['its volume has not been attached as writable for this start', [then()], [now({ generation: 4 })]],
  ['its read-only volume had a writer', [then({ readOnly: true })], [now({ readOnly: true, generation: 5 })]],
  ['its volume has another mount point', [then()], [now({ mountPoint: '/srv' })]],
  ['its volume is read-only now', [then()], [now({ readOnly: true, generation: 4 })]],
  ['it has another volume', [then()], [now({ volumeId: 'vol-2' })]],
  ['it has an additional volume', [then()], [now(), now({ volumeId: 'vol-2' })]],
  ['it has no volume', [then()], []],
] as const)('a sleeping VM boots instead of being restored if %s', (_, had, disks) => {
  expect(obstacleOf(had, disks, 'asleep')).toEqual(expect.any(String))
})

test("a VM is restored from a snapshot if its volumes can be reset to the snapshot's copies, or are read-only and unchanged", () => {
  expect(obstacleOf([then({ copied: true })], [now({ generation: 4 })], 'restored')).toBeUndefined()
  expect(obstacleOf([then({ copied: true })], [now({ generation: 9 })], 'restored')).toBeUndefined()
  expect(obstacleOf([then()], [now({ generation: 4 })], 'restored')).toContain('written')
  const reader = then({ readOnly: true })
  expect(obstacleOf([reader], [now({ readOnly: true, generation: 4 })], 'restored')).toBeUndefined()
  expect(obstacleOf([reader], [now({ readOnly: true, generation: 5 })], 'restored')).toContain('written')
})

describe('a fork', () => {
  const clones = [{ volumeId: 'vol-2', of: 'vol-1' }]
  const [copied, clone] = [then({ copied: true }), now({ volumeId: 'vol-2', generation: 1 })]

  test('is restored from the snapshot if nothing has written to its clone and its read-only volume is unchanged', () => {
    expect(obstacleOf([copied], [clone], 'forked', clones)).toBeUndefined()
    const [had, has] = [then({ volumeId: 'vol-3', readOnly: true }), now({ volumeId: 'vol-3', readOnly: true })]
    expect(obstacleOf([copied, had], [clone, { ...has, generation: 4 }], 'forked', clones)).toBeUndefined()
    expect(obstacleOf([copied, had], [clone, { ...has, generation: 5 }], 'forked', clones)).toContain('vol-3')
  })

  test.each([
    ['its clone had another writer', copied, now({ volumeId: 'vol-2', generation: 2 }), clones],
    ['it has the original volume, which the VM still uses', copied, now({ generation: 1 }), []],
    ['the snapshot has no copy of the volume', then(), clone, clones],
    ['its clone is of another volume', copied, clone, [{ volumeId: 'vol-2', of: 'vol-9' }]],
  ] as const)('boots instead of being restored if %s', (_, had, disk, map) => {
    expect(obstacleOf([had], [disk], 'forked', [...map])).toEqual(expect.any(String))
  })
})
