// Not repeated on the distribution's PostgreSQL: this file tests real VMs, not the control plane's database.
import { driverCases } from '../support/agent/hypervisor.ts'
import { isNightly } from '../support/nightly.ts'
import { testManagedDatabase } from '../support/managed-database.ts'

/** Under emulation, these tests take ten times as long as on gVisor. So if gVisor works here, they run each night. */
const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')
const isCovered = !isNightly && gvisor?.skip === false

await testManagedDatabase({
  hypervisor: 'emulated QEMU',
  programs: ['qemu-system-x86_64'],
  missing: isCovered ? ['the night, or MOTE_TEST_NIGHTLY=1 (database-gvisor.test.ts runs the same)'] : [],
  config: { hypervisor: 'qemu' },
})
