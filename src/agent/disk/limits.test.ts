/** Tests the disk limits of a real VM: writing more than the limit allows takes longer. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { hasProgram } from '../../lib/programs.ts'
import { type TestAgent, testAgent, testSpec } from '../../../test/support/agent/agent.ts'

const needed = ['qemu-system-x86_64', 'skopeo', 'umoci', 'mke2fs']
const present = await Promise.all(needed.map(hasProgram))
const reason = present.every(Boolean) ? '' : 'needs QEMU and the tools for images'

/**
 * Number of MiB to write. The limit of 1 MiB/s allows a burst of four seconds; the remaining bytes take at least
 * `leastMs` on any host.
 */
const mib = 10
const leastMs = 5_000

let host: TestAgent
beforeAll(async () => {
  if (reason !== '') return
  host = await testAgent({ network: 'user', diskLimits: { mibPerSecond: 1, operations: 10_000 } })
  await host.volume({ volumeId: 'vol-1' })
  const volume = { volumeId: 'vol-1', pool: 'local', sizeMib: 32, generation: 1 } as const
  const disks = [{ ...volume, mountPoint: '/data', readOnly: false }]
  await host.put({ vmId: 'limited', generation: 1, want: 'running', spec: testSpec({ disks }) })
  await host.until('limited', 'has its volume', vm => vm.disks?.[0]?.state === 'attached' && vm.healthy)
}, 120_000)
afterAll(() => host?.[Symbol.asyncDispose]())

it.skipIf(reason !== '').each([
  ['its volume', '/data'],
  ['its own disk', '/tmp'],
])(`writes to %s are not faster than the VM's disk limit ${reason}`, async (_what, dir) => {
  const file = `${dir}/limited`
  const startedMs = performance.now()
  const { exitCode, stderr } = await host.exec(
    'limited',
    ['dd', 'if=/dev/zero', `of=${file}`, 'bs=65536', `count=${mib * 16}`, 'conv=fsync'],
    50_000,
  )
  expect([exitCode, stderr]).toEqual([0, expect.any(String)])
  expect(performance.now() - startedMs).toBeGreaterThan(leastMs)
})
