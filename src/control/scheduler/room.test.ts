import { expect, it } from 'vitest'
import type { HostView, PlacementRequest } from './place.ts'
import { roomFor } from './room.ts'

const host = (id: string, change: Partial<HostView> = {}): HostView => ({
  id,
  name: `host-${id}`,
  arch: 'x64',
  hypervisors: [{ name: 'qemu', available: true }],
  vcpus: 8,
  memoryMib: 8192,
  diskMib: 100_000,
  usedVcpus: 0,
  usedMemoryMib: 0,
  usedDiskMib: 0,
  cordoned: false,
  up: true,
  ...change,
})
const request: PlacementRequest = {
  hypervisor: undefined,
  vcpus: 1,
  memoryMib: 1024,
  diskMib: 1000,
  siblings: new Set(),
}

it('the capacity is counted as the VMs that fit now, and as the VMs that would fit on empty hosts', () => {
  const hosts = [host('a', { usedMemoryMib: 5000 }), host('b', { cordoned: true }), host('c', { vcpus: 2 })]
  expect(roomFor(hosts, request)).toMatchObject({ now: 3 + 2, ever: 8 + 8 + 2 })
})

it('the capacity excludes hosts that can never run the VM', () => {
  const hosts = [
    host('a'),
    host('b', { hypervisors: [{ name: 'fake', available: true }] }),
    host('c', { memoryMib: 512 }),
  ]
  expect(roomFor(hosts, { ...request, hypervisor: 'qemu' })).toMatchObject({ now: 8, ever: 8 })
  expect(roomFor(hosts, { ...request, pinnedTo: 'c' })).toMatchObject({ now: 0, ever: 0 })
})

it('the capacity has no upper limit while no host has joined', () => {
  expect(roomFor([], request)).toMatchObject({ now: 0, ever: Number.POSITIVE_INFINITY })
})

it('the limit says what to change if no host can ever run the VM', () => {
  const never = roomFor([host('a'), host('b')], { ...request, hypervisor: 'firecracker' })
  expect(never).toMatchObject({
    ever: 0,
    limit: 'No host offers firecracker. Leave hypervisor out, or name another one',
  })
  const large = roomFor([host('a', { usedVcpus: 8 })], { ...request, memoryMib: 16_384 })
  expect(large.limit).toBe(
    'No host is large enough for 1 vCPU, 16384 MiB of memory and 1000 MiB of disk (1 host: not enough memory)',
  )
})
