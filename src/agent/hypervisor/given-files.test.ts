/** Tests, with every driver, that the `files` in a VM's desired state exist before its program starts, at each boot. */
import { describe, expect, test } from 'vitest'
import type { VmSpec, VmWant } from '../../contract/agent.ts'
import { testAgent, testSpec } from '../../../test/support/agent/agent.ts'
import { runsAll } from '../../../test/support/all-examples.ts'
import { driverCases } from '../../../test/support/agent/hypervisor.ts'

const base64 = (text: string) => Buffer.from(text).toString('base64')
const large = 'x'.repeat(300 << 10)
const show = `cat "/etc/shop/a b.conf"; wc -c < /srv/large; ls -ln /run/key | cut -c1-10; ls -ln /srv/empty | awk '{ print $5 }'; cat /etc/hostname`

const cases = (await driverCases()).filter(({ spec }) => spec.hypervisor !== 'fake')
// Only partly in `npm test`: gVisor, or the last driver of this machine, covers the other drivers in all tests but the
// first, because the same init writes the files in each guest.
const thorough = cases.findLast(({ skip }) => !skip)?.name

describe.each(cases)('files with the driver $name', ({ name, config, spec, skip }) => {
  const skipInDetail = skip || (!runsAll && name !== thorough)
  const desired = (generation: number, want: 'running' | 'stopped', files: VmSpec['files'] = []) => ({
    vmId: 'vm-1',
    generation,
    want,
    spec: testSpec({ ...spec, command: ['/bin/sh', '-c', show], maxRestarts: 0, files }),
  })

  test.skipIf(skip)('have the specified content and mode at each boot', { timeout: 180_000 }, async () => {
    await using host = await testAgent(config)
    const files = [
      { path: '/etc/shop/a b.conf', mode: 0o644, data: base64('level = "100%"\nname = "ü"\n') },
      { path: '/srv/large', mode: 0o600, data: base64(large) },
      { path: '/run/key', mode: 0o400, data: base64('k') },
      { path: '/srv/empty', mode: 0o644, data: '' },
      // This file replaces a file of the image.
      { path: '/etc/hostname', mode: 0o644, data: base64('given\n') },
    ]
    for (const boot of [1, 2]) {
      await host.put(desired(boot * 2, 'running', files))
      await host.until('vm-1', 'ended', vm => vm.state === 'crashed' && vm.generation === boot * 2)
      const lines = (await host.logs('vm-1')).filter(({ stream }) => stream === 'stdout').map(({ line }) => line)
      const once = ['level = "100%"', 'name = "ü"', String(large.length), '-r--------', '0', 'given']
      expect(lines).toEqual(boot === 1 ? once : [...once, ...once])
      await host.put(desired(boot * 2 + 1, 'stopped', files))
      await host.until('vm-1', 'stopped', vm => vm.state === 'stopped')
    }
  })

  test.skipIf(skipInDetail)('exist in a VM restored from a snapshot, and in a fork', { timeout: 180_000 }, async () => {
    await using host = await testAgent(config)
    const files = [{ path: '/etc/shop/a.conf', mode: 0o600, data: base64('a\n') }]
    const put = (vmId: string, generation: number, more: Partial<VmSpec> = {}, want: VmWant = 'running') =>
      host.put({ vmId, generation, want, spec: testSpec({ ...spec, files, ...more }) })
    await put('vm-1', 1)
    await host.until('vm-1', 'healthy', vm => vm.healthy)
    expect(await host.snapshot('snap-1', 'vm-1')).toMatchObject({ state: 'ready' })
    await put('vm-1', 2, {}, 'stopped')
    await host.until('vm-1', 'stopped', vm => vm.state === 'stopped')
    await put('vm-1', 3, { from: { snapshotId: 'snap-1', renew: false } })
    await put('fork', 1, { from: { snapshotId: 'snap-1', renew: true } })
    for (const vmId of ['vm-1', 'fork']) {
      await host.until(vmId, 'healthy', vm => vm.healthy)
      const { stdout } = await host.exec(vmId, [
        'sh',
        '-c',
        'cat /etc/shop/a.conf; ls -l /etc/shop/a.conf | cut -c1-10',
      ])
      expect(stdout).toBe('a\n-rw-------\n')
    }
  })

  test.skipIf(skipInDetail)('fail the start with their path if writing them fails', { timeout: 180_000 }, async () => {
    await using host = await testAgent(config)
    await host.put(desired(1, 'running', [{ path: '/etc', mode: 0o644, data: base64('a') }]))
    const failed = await host.until('vm-1', 'failed', vm => vm.state === 'crashed')
    expect(failed.error?.message).toContain('/etc: Is a directory')
  })
})
