// Not repeated on the distribution's PostgreSQL: this file tests real VMs, not the control plane's database.
import { driverCases } from '../support/agent/hypervisor.ts'
import { runsAll } from '../support/all-examples.ts'
import { testManagedDatabase } from '../support/managed-database.ts'

/** Under emulation, these tests take ten times as long as on gVisor. So if gVisor works here, they run only in `npm run test:all`. */
const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')
const isCovered = !runsAll && gvisor?.skip === false

await testManagedDatabase({
  hypervisor: 'emulated QEMU',
  programs: ['qemu-system-x86_64'],
  missing: isCovered ? ['npm run test:all (database-gvisor.test.ts runs the same on gVisor)'] : [],
  config: { hypervisor: 'qemu' },
})
