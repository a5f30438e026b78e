/** Deletes a snapshot while its VM is being restored from it. */
import { expect, test } from 'vitest'
import { createFakeHost } from '../hypervisor/fake/host.ts'
import { testAgent, testSpec } from '../../../test/support/agent/agent.ts'

const instant = { imageMs: 0, bootMs: 0, healthyMs: 0, stopMs: 0, logEveryMs: 0 }
const spec = testSpec({ hypervisor: 'fake' })

test('a VM is restored from its snapshot although the deletion of the snapshot was requested meanwhile', async () => {
  const fake = createFakeHost(instant)
  const [stopping, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const pass = fake.pass.bind(fake)
  fake.pass = async (verb, ...rest) => {
    if (verb === 'stop') {
      stopping.resolve()
      await gate.promise
    }
    return pass(verb, ...rest)
  }
  await using host = await testAgent({ hypervisor: 'fake' }, fake)
  await host.put({ vmId: 'vm-1', generation: 1, want: 'running', spec })
  await host.until('vm-1', 'healthy', vm => vm.healthy)
  const memory = fake.vms.get('vm-1')?.memory
  expect(await host.snapshot('snap-1', 'vm-1')).toMatchObject({ state: 'ready' })
  const from = { snapshotId: 'snap-1', renew: false }
  await host.put({ vmId: 'vm-1', generation: 2, want: 'running', spec: { ...spec, restarts: 1, from } })
  await stopping.promise
  const gone = { snapshotId: 'snap-1', vmId: 'vm-1', generation: 2, want: 'absent' }
  expect(await host.request('snapshot.put', gone)).not.toMatchObject({ state: 'absent' })
  gate.resolve()
  await host.until('vm-1', 'started again', vm => vm.healthy && vm.restartCount > 0)
  expect(fake.vms.get('vm-1')?.memory).toBe(memory)
})
