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
/**
 * The text of a snapshot in which a volume's device occurs in the settings, in the device tree, and in a JSON string
 * with the device's state.
 */
const saved = (volumeId: string) => {
  const { device, serial } = volumeNames(volumeId)
  return JSON.stringify({
    disks: [{ id: device, path: device, serial }],
    tree: { [`_virtio-pci-${device}`]: { children: [device] } },
    state: JSON.stringify({ disk_path: device, nsectors: 18_446_744_073_709n.toString(), serial }),
  })
}

test('in the saved state of a VM, every occurrence of a volume name is replaced with the name of its clone', () => {
  expect(renamed(saved(was), [{ disk: disk(is), of: was }])).toBe(saved(is))
})

test('a volume that no clone replaces keeps its device name and serial, even if another volume has a clone', () => {
  expect(renamed(saved(was), [{ disk: disk(was), of: was }])).toBe(saved(was))
  expect(renamed(saved(other), [{ disk: disk(is), of: was }])).toBe(saved(other))
})

test('if two volumes of a snapshot are exchanged, each gets the device name and serial of the other', () => {
  const both = [
    { disk: disk(is), of: was },
    { disk: disk(was), of: is },
  ]
  expect(renamed(saved(was) + saved(is), both)).toBe(saved(is) + saved(was))
})
