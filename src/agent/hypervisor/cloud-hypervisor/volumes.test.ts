import { expect, test } from 'vitest'
import { renamed, volumeNames } from './volumes.ts'

const [was, is, other] = [
  '0b6f6a5e-7d1c-4f0e-9d5b-3c1f4e8a9b21',
  '7c1e2f30-1111-4222-8333-944455556666',
  '99999999-7d1c-4f0e-9d5b-3c1f4e8a9b22',
]
const disk = (volumeId: string) => ({
  volumeId,
  pool: 'local',
  sizeMib: 32,
  generation: 1,
  mountPoint: '/data',
  readOnly: false,
})
/** As it names a device: in its settings, in the device tree, and in a state that is text within the text. */
const saved = (volumeId: string) => {
  const { device, serial } = volumeNames(volumeId)
  return JSON.stringify({
    disks: [{ id: device, path: device, serial }],
    tree: { [`_virtio-pci-${device}`]: { children: [device] } },
    state: JSON.stringify({ disk_path: device, nsectors: 18_446_744_073_709n.toString(), serial }),
  })
}

test('a clone has the names of the volume in whose place it is, wherever a snapshot has them', () => {
  expect(renamed(saved(was), [{ disk: disk(is), of: was }])).toBe(saved(is))
})

test('what is not cloned keeps its names, also beside one that is', () => {
  expect(renamed(saved(was), [{ disk: disk(was), of: was }])).toBe(saved(was))
  expect(renamed(saved(other), [{ disk: disk(is), of: was }])).toBe(saved(other))
})

test('two that change places do not become one', () => {
  const both = [
    { disk: disk(is), of: was },
    { disk: disk(was), of: is },
  ]
  expect(renamed(saved(was) + saved(is), both)).toBe(saved(is) + saved(was))
})
