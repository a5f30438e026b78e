// Runs on one PostgreSQL only: tests real VMs.
import { driverCases } from '../support/agent/hypervisor.ts'
import { isNightly } from '../support/nightly.ts'
import { testManagedDatabase } from '../support/managed-database.ts'

/** Each change runs the same on gVisor, in a tenth of the time; other tests boot, move and fill emulated guests. */
const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')
const isCovered = !isNightly && gvisor?.skip === false

await testManagedDatabase({
  hypervisor: 'emulated QEMU',
  programs: ['qemu-system-x86_64'],
  missing: isCovered ? ['the night, or MOTE_TEST_NIGHTLY=1 (database-gvisor.test.ts runs the same)'] : [],
  config: { hypervisor: 'qemu' },
})
