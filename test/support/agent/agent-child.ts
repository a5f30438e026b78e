/** An agent in a process of its own, for tests that kill it: puts one VM and tells when it is there. */
import { setTimeout as sleep } from 'node:timers/promises'
import { until as condition } from '../wait.ts'
import { testAgent, testSpec, vmmsIn } from './agent.ts'

const [dataDir = '', until = 'healthy', then = '', cacheDir = ''] = process.argv.slice(2)
// A boot that is to be cut short must be a boot: from a template it is over before anybody sees it.
const long = until === 'booting' && !cacheDir ? { templateMib: 0 } : {}
const host = await testAgent({ dataDir, hypervisor: 'qemu', ...(cacheDir ? { cacheDir } : {}), ...long })
await host.put({ vmId: 'vm-1', generation: 3, want: 'running', spec: testSpec() })
// Held where it is: on a busy machine the boot would be over before the kill.
if (until === 'booting') {
  const vmm = await condition(async () => (await vmmsIn(dataDir))[0], { what: 'a VMM', timeoutMs: 20_000 })
  process.kill(vmm, 'SIGSTOP')
}
const vm = await host.until('vm-1', until, observed =>
  until === 'healthy' ? observed.healthy : observed.state === 'booting',
)
if (vm.endpoint && until === 'healthy') {
  await fetch(`http://${vm.endpoint.host}:${vm.endpoint.port}/before`)
  while (!(await host.logs('vm-1')).some(({ line }) => line.includes('/before'))) await sleep(20)
}
if (then === 'snapshot')
  await host.request('snapshot.put', { snapshotId: 'snap-1', vmId: 'vm-1', generation: 1, want: 'present' })
process.stdout.write(`${JSON.stringify(vm)}\n`)
if (then === 'leave') await host.agent.stop()
else await sleep(600_000)
