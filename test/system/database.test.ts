// Not repeated on the distribution's PostgreSQL: tests real VMs, not the database server of the control plane.
import { driverCases } from '../support/agent/hypervisor.ts'
import { isNightly } from '../support/nightly.ts'
import { testManagedDatabase } from '../support/managed-database.ts'

/** If gVisor works here, these tests run under emulation only each night: on gVisor they take a tenth of the time. */
const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')
const isCovered = !isNightly && gvisor?.skip === false

await testManagedDatabase({
  hypervisor: 'emulated QEMU',
  programs: ['qemu-system-x86_64'],
  missing: isCovered ? ['the night, or MOTE_TEST_NIGHTLY=1 (database-gvisor.test.ts runs the same)'] : [],
  config: { hypervisor: 'qemu' },
})
