/** Runs a host agent with simulated VMs, to measure its memory and start time. Arguments: `<data directory> <VMs>`. */
import { pino } from 'pino'
import { agentConfig } from '../src/agent/base/config.ts'
import { startAgent } from '../src/agent/main.ts'
import { testSpec } from '../test/support/agent/agent.ts'
import { createMemoryBus } from '../src/bus/memory.ts'
import { subjects } from '../src/contract/agent.ts'

const [dataDir = '', vms = '0'] = process.argv.slice(2)
const bus = createMemoryBus()
const config = agentConfig({ dataDir, hostName: 'bench', hypervisor: 'fake' })
const agent = await startAgent(config, { bus, log: pino({ level: 'silent' }) })
await agent.probed
for (let n = 0; n < Number(vms); n++) {
  const desired = { vmId: `vm-${n}`, generation: 1, want: 'running', spec: testSpec({ hypervisor: 'fake' }) }
  await bus.request(subjects.hostIn(agent.hostId, 'vm.put'), desired, { timeoutMs: 30_000 })
}
process.once('disconnect', () => process.exit(1))
process.once('SIGTERM', async () => {
  await agent.stop({ stopVms: true })
  process.exit(0)
})
process.send?.('ready')
