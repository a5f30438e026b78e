/** An agent that is killed while its pool is full, or while one of the pool is to become a VM that it never becomes. */
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../../../../test/support/wait.ts'
import { testAgent, testSpec } from '../../../../../test/support/agent/agent.ts'
import { groupOf, waitingIn } from './testing.ts'

const [dataDir = '', then = ''] = process.argv.slice(2)
const network = process.getuid?.() === 0 ? 'tap' : 'user'
const host = await testAgent({ dataDir, hypervisor: 'qemu', network, vmmPool: 2 })
// It leaves a template, without which nobody goes on from one.
await host.put({ vmId: 'vm-1', generation: 1, want: 'running', spec: testSpec() })
await host.until('vm-1', 'healthy', vm => vm.healthy)
const full = async () => {
  const pids = await waitingIn(dataDir)
  return pids.length === 2 ? pids : undefined
}
const pids = await until(full, { what: 'two that wait', timeoutMs: 40_000 })
if (then === 'hand-over') {
  for (const pid of pids) process.kill(pid, 'SIGSTOP')
  const before = await Promise.all(pids.map(groupOf))
  await host.put({ vmId: 'vm-2', generation: 1, want: 'running', spec: testSpec({ hostname: 'vm-2' }) })
  const isTaken = async () => (await Promise.all(pids.map(groupOf))).join() !== before.join()
  await until(isTaken, { what: 'one that is taken', timeoutMs: 20_000, everyMs: 2 })
}
process.stdout.write(`${JSON.stringify(pids)}\n`)
await sleep(600_000)
