import { expect, it } from 'vitest'
import { isolationText, preferred } from './isolation-text.ts'

const qemu = { name: 'qemu', available: true, emulated: true }
const gvisor = { name: 'gvisor', available: true }
const firecracker = { name: 'firecracker', available: true }

it.each([
  ['KVM before gVisor', [qemu, gvisor, firecracker], 'a virtual machine (firecracker)'],
  ['gVisor before emulation', [qemu, gvisor], 'gVisor, a kernel in user space, at native speed'],
  ['emulation if there is nothing else', [qemu, { ...gvisor, available: false }], 'mote runsc install'],
])('a host prefers %s', (_, offers, text) => {
  const offer = preferred(offers)
  expect(offer && isolationText(offer)).toContain(text)
})

it('a host without an available hypervisor has no preferred one', () =>
  expect(preferred([{ ...qemu, available: false }])).toBeUndefined())
