// once-is-enough: tests real VMs.
import { testManagedDatabase } from '../support/managed-database.ts'

await testManagedDatabase({
  hypervisor: 'emulated QEMU',
  programs: ['qemu-system-x86_64'],
  config: { hypervisor: 'qemu' },
})
