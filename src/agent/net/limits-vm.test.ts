/** Tests that a real VM that exceeds a limit gets a line in its log and is counted, and that another VM gets none. */
import { expect, it } from 'vitest'
import { existsSync } from 'node:fs'
import { until } from '../../../test/support/wait.ts'
import { testAgent, testSpec } from '../../../test/support/agent/agent.ts'
import { defaultLimits, refusalText } from '../base/network-limits.ts'

const why = process.getuid?.() !== 0 ? 'needs root' : existsSync('/usr/bin/qemu-system-x86_64') ? '' : 'needs qemu'

it.skipIf(why !== '')(
  `a VM that opens too many connections per second gets a line in its log ${why}`,
  { timeout: 120_000 },
  async () => {
    const guestLimits = { ...defaultLimits, newConnections: 1 }
    await using host = await testAgent({ hypervisor: 'qemu', network: 'tap', guestLimits })
    for (const vmId of ['loud', 'quiet']) {
      await host.put({ vmId, generation: 1, want: 'running', spec: testSpec({ hostname: vmId }) })
      await host.until(vmId, 'healthy', vm => vm.healthy)
    }
    // The DNS queries go to the host's resolver, so no packet leaves the host.
    const script =
      'read _ dns < /etc/resolv.conf; for n in 1 2 3 4 5 6 7 8 9; do nc -w 1 $dns 53 < /dev/null & done; wait'
    await host.exec('loud', ['sh', '-c', script], 30_000)
    const about = (vmId: string) =>
      host.logs(vmId).then(lines => lines.filter(({ line }) => line.includes('connections a second')))
    const [said] = await until(
      async () => {
        const lines = await about('loud')
        return lines.length > 0 ? lines : undefined
      },
      { what: 'the log says so', timeoutMs: 60_000 },
    )
    const count = Number(/(\d+) attempts/.exec(said?.line ?? '')?.[1])
    expect(said).toMatchObject({ stream: 'system', line: refusalText('new_connections', count, guestLimits) })
    expect(count).toBeGreaterThan(0)
    expect(await about('quiet')).toEqual([])
  },
)
