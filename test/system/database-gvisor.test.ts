// Not repeated on the distribution's PostgreSQL: this file tests real VMs, not the control plane's database.
import { driverCases } from '../support/agent/hypervisor.ts'
import { testManagedDatabase } from '../support/managed-database.ts'

const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')

await testManagedDatabase({
  hypervisor: 'gVisor',
  programs: [],
  missing: gvisor?.skip === false ? [] : [gvisor?.name ?? 'gvisor'],
  config: gvisor?.config ?? {},
})
