// Not repeated on the distribution's PostgreSQL: this file tests real VMs, not the control plane's database.
import { beforeEach } from 'vitest'
import { driverCases } from '../support/agent/hypervisor.ts'
import { runsAll } from '../support/all-examples.ts'
import { testManagedDatabase } from '../support/managed-database.ts'

const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')

// Not in `npm test`: src/control/fleet/drain.test.ts covers draining a host.
const onlyInAll = 'keeps acknowledged rows when its host is drained during writes, under the same psql command'
beforeEach(({ skip, task }) => skip(!runsAll && task.name === onlyInAll, 'runs in npm run test:all'))

await testManagedDatabase({
  hypervisor: 'gVisor',
  programs: [],
  missing: gvisor?.skip === false ? [] : [gvisor?.name ?? 'gvisor'],
  config: gvisor?.config ?? {},
})
