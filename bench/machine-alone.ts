/** Measures one VM on an agent without a control plane: the start of its process, its boot and its first page. */
import { request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { TestAgent } from '../test/support/agent/agent.ts'
import type { VmObserved, VmSpec } from '../src/contract/agent.ts'

/** Steps of a VM start that any VMM needs, unlike the agent's own steps `image`, `base`, `disk` and `prepare`. */
const machineSteps = ['spawn', 'load', 'resume', 'boot']

export const machineMs = ({ steps }: Pick<VmObserved, 'steps'>): number =>
  steps.filter(({ name }) => machineSteps.includes(name)).reduce((sum, { ms }) => sum + ms, 0)

/**
 * Returns the milliseconds until the page at the VM's own address responds with 200. A connection attempt is given up
 * after 100 ms, because packets are lost until the guest's network is up.
 */
async function untilPage({ endpoint }: VmObserved, path: string): Promise<number> {
  const began = performance.now()
  for (const deadline = began + 60_000; performance.now() < deadline; await pause(2)) {
    const isThere = await new Promise<boolean>(resolve => {
      const asked = request(
        { host: endpoint?.host, port: endpoint?.port, path, agent: false, timeout: 100 },
        response => response.resume().once('end', () => resolve(response.statusCode === 200)),
      )
      // The short time limit applies only to the connection, not to the response, as in the agent's health checks.
      asked.on('socket', socket => socket.once('connect', () => asked.setTimeout(10_000)))
      asked.on('timeout', () => asked.destroy()).on('error', () => resolve(false))
      asked.end()
    })
    if (isThere) return performance.now() - began
  }
  throw new Error('the VM did not answer within a minute')
}

/**
 * Starts a VM and removes it afterwards. Returns the milliseconds from the start of its process to the first page,
 * without the agent's own work.
 */
export async function machineToPage(host: TestAgent, vmId: string, spec: VmSpec, path = '/'): Promise<number> {
  await host.put({ vmId, generation: 1, want: 'running', spec })
  const observed = await host.until(vmId, 'running', vm => vm.state === 'running')
  const ms = machineMs(observed) + (await untilPage(observed, path))
  await host.request('vm.forget', { vmId, generation: 2 })
  await host.until(vmId, 'gone', vm => vm.state === 'absent')
  return ms
}
