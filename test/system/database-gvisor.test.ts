// Not repeated on the distribution's PostgreSQL: this file tests real VMs, not the control plane's database.
import { beforeEach } from 'vitest'
import { driverCases } from '../support/agent/hypervisor.ts'
import { runsAll } from '../support/all-examples.ts'
import { testManagedDatabase } from '../support/managed-database.ts'

const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')

// Not in `npm test`: src/control/fleet/drain.test.ts covers draining a host. The restore in place covers recovery from
// backups to a chosen second, and src/control/databases the promotion of branches and the results of restore drills.
const onlyInAll = [
  'keeps acknowledged rows when its host is drained during writes, under the same psql command',
  'is branched at a chosen second from backups, and the branch is promoted',
  'has backups that a restore drill verifies',
]
beforeEach(({ skip, task }) => skip(!runsAll && onlyInAll.includes(task.name), 'runs in npm run test:all'))

await testManagedDatabase({
  hypervisor: 'gVisor',
  programs: [],
  missing: gvisor?.skip === false ? [] : [gvisor?.name ?? 'gvisor'],
  config: gvisor?.config ?? {},
})
