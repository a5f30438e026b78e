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

test('a VM that slept goes on with a volume that only its own start has raised', () => {
  expect(obstacleOf([then()], [now()], 'asleep')).toBeUndefined()
  const reader = { readOnly: true, generation: 4 }
  expect(obstacleOf([then(reader)], [now(reader)], 'asleep')).toBeUndefined()
})

test.each([
  ['somebody wrote between', [then()], [now({ generation: 6 })]],
  ['it is the same attachment still', [then()], [now({ generation: 4 })]],
  ['a writer came between readers', [then({ readOnly: true })], [now({ readOnly: true, generation: 5 })]],
  ['it is elsewhere in the tree', [then()], [now({ mountPoint: '/srv' })]],
  ['it may only read now', [then()], [now({ readOnly: true, generation: 4 })]],
  ['it is another one', [then()], [now({ volumeId: 'vol-2' })]],
  ['it has one more', [then()], [now(), now({ volumeId: 'vol-2' })]],
  ['it has none', [then()], []],
] as const)('a VM that slept boots when %s', (_, had, disks) => {
  expect(obstacleOf(had, disks, 'asleep')).toEqual(expect.any(String))
})

test('a VM that is restored goes on with what there is a copy of', () => {
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

  test('goes on with a clone that nobody wrote to, and with what is only read', () => {
    expect(obstacleOf([copied], [clone], 'forked', clones)).toBeUndefined()
    const [had, has] = [then({ volumeId: 'vol-3', readOnly: true }), now({ volumeId: 'vol-3', readOnly: true })]
    expect(obstacleOf([copied, had], [clone, { ...has, generation: 4 }], 'forked', clones)).toBeUndefined()
    expect(obstacleOf([copied, had], [clone, { ...has, generation: 5 }], 'forked', clones)).toContain('vol-3')
  })

  test.each([
    ['its clone had a writer before', copied, now({ volumeId: 'vol-2', generation: 2 }), clones],
    ['it has the volume itself, which the VM went on with', copied, now({ generation: 1 }), []],
    ['there is no copy', then(), clone, clones],
    ['its clone is of another volume', copied, clone, [{ volumeId: 'vol-2', of: 'vol-9' }]],
  ] as const)('boots when %s', (_, had, disk, map) => {
    expect(obstacleOf([had], [disk], 'forked', [...map])).toEqual(expect.any(String))
  })
})
