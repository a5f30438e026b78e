/**
 * Runs an agent in its own process, for tests that kill it: starts one VM and prints a line once the VM reaches the
 * requested state.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { until as condition } from '../wait.ts'
import { testAgent, testSpec, vmmsIn } from './agent.ts'

const [dataDir = '', until = 'healthy', then = '', cacheDir = ''] = process.argv.slice(2)
// Without templates, tests that interrupt a boot get a full boot: a start from a template is too fast to interrupt.
const long = until === 'booting' && !cacheDir ? { templateMib: 0 } : {}
const host = await testAgent({ dataDir, hypervisor: 'qemu', ...(cacheDir ? { cacheDir } : {}), ...long })
if (until === 'booting') await stopInBoot()
else await host.put({ vmId: 'vm-1', generation: 3, want: 'running', spec: testSpec() })
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

/**
 * Starts a VM and stops its VMM (SIGSTOP) while the guest boots. If the boot was complete before, starts another one.
 */
async function stopInBoot(): Promise<void> {
  let earlier: number | undefined
  for (let generation = 3; ; generation++) {
    const spec = testSpec({ env: { GENERATION: String(generation) } })
    await host.put({ vmId: 'vm-1', generation, want: 'running', spec })
    const started = async () => (await vmmsIn(dataDir)).find(pid => pid !== earlier)
    const vmm = await condition(started, { what: 'a VMM' })
    process.kill(vmm, 'SIGSTOP')
    if ((await host.get('vm-1')).state === 'booting') return
    earlier = vmm
    process.kill(vmm, 'SIGKILL')
  }
}
