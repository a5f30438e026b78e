/** Tests, with every driver, the additional programs of a VM, which run before its main program or next to it. */
import { describe, expect, test } from 'vitest'
import type { VmSpec } from '../../contract/agent.ts'
import { programsPath } from '../../lib/vm-programs.ts'
import { testAgent, testSpec } from '../../../test/support/agent/agent.ts'
import { runsAll } from '../../../test/support/all-examples.ts'
import { until } from '../../../test/support/wait.ts'
import { driverCases } from '../../../test/support/agent/hypervisor.ts'

const programs = (list: readonly object[], more: object = {}): NonNullable<VmSpec['files']> => [
  {
    path: programsPath,
    mode: 0o400,
    data: Buffer.from(JSON.stringify({ programs: list, ...more })).toString('base64'),
  },
]
const sh = (script: string) => ({ command: ['/bin/sh', '-c', script] })

const cases = (await driverCases()).filter(({ spec }) => spec.hypervisor !== 'fake')
// Only partly in `npm test`: gVisor, or the last driver of this machine, covers the other drivers in all tests but the
// first, because the same init runs the programs in each guest.
const thorough = cases.findLast(({ skip }) => !skip)?.name

describe.each(cases)('programs with the driver $name', ({ name, config, spec, skip }) => {
  const skipInDetail = skip || (!runsAll && name !== thorough)
  const desired = (script: string, files: NonNullable<VmSpec['files']>) => ({
    vmId: 'vm-1',
    generation: 1,
    want: 'running' as const,
    spec: testSpec({ ...spec, ...sh(script), maxRestarts: 0, env: { OWN: 'main', SHARED: 'x y' }, files }),
  })
  const lines = async (host: Awaited<ReturnType<typeof testAgent>>) =>
    (await host.logs('vm-1')).filter(({ stream }) => stream !== 'system').map(({ line }) => line)

  test.skipIf(skip)(
    "run before or next to the main program, on the same disk and with the VM's environment variables",
    { timeout: 120_000 },
    async () => {
      await using host = await testAgent(config)
      const list = [
        { name: 'one', before: true, ...sh('sleep 0.2; echo one > /tmp/order') },
        { name: 'two', before: true, ...sh('echo two >> /tmp/order; echo prepared') },
        {
          name: 'worker',
          environment: { OWN: null, MINE: '100%' },
          ...sh('echo "[$OWN][$SHARED][$MINE]"; touch /tmp/worker; sleep 1000'),
        },
      ]
      const script =
        'until [ -e /tmp/worker ]; do sleep 0.1; done; cat /opt/a/orders/order; echo "[$OWN]"; grep -c db /etc/hosts'
      await host.put(desired(script, programs(list, { names: ['db'], links: [{ path: '/opt/a/orders', to: '/tmp' }] })))
      await host.until('vm-1', 'ended', vm => vm.state === 'crashed')
      const all = await lines(host)
      expect(all.filter(line => !line.startsWith('worker'))).toEqual(['prepared', 'one', 'two', '[main]', '2'])
      expect(all).toContain('worker | [][x y][100%]')
    },
  )

  test.skipIf(skipInDetail)(
    'are restarted after a failure, and the VM still stops without delay',
    { timeout: 120_000 },
    async () => {
      await using host = await testAgent(config)
      const list = [
        { name: 'crash', restart: 'on-failure', ...sh('echo . >> /tmp/n; [ $(wc -l < /tmp/n) = 3 ] || exit 7') },
        { name: 'once', restart: 'never', ...sh('echo done; exit 3') },
        { name: 'stays', ...sh('trap "exit 0" TERM; sleep 1000 & wait') },
      ]
      const script =
        'trap "exit 0" TERM; until [ "$(wc -l < /tmp/n)" = 3 ]; do sleep 0.1; done; echo three; sleep 1000 & wait'
      await host.put(desired(script, programs(list)))
      await until(async () => (await lines(host)).includes('three'), {
        what: 'the third run',
      })
      const system = (await host.logs('vm-1')).filter(({ stream }) => stream === 'system').map(({ line }) => line)
      expect(system).toContain('crash ended with code 7; it starts again in 1 s')
      expect(system).toContain('once ended with code 3')
      await host.put({ ...desired(script, programs(list)), generation: 2, want: 'stopped' })
      await host.until('vm-1', 'stopped', vm => vm.state === 'stopped')
    },
  )

  test.skipIf(skipInDetail)(
    'that run before the main program end the VM if they fail',
    { timeout: 120_000 },
    async () => {
      await using host = await testAgent(config)
      await host.put(desired('echo never', programs([{ name: 'check', before: true, ...sh('echo no; exit 4') }])))
      const vm = await host.until('vm-1', 'ended', one => one.state === 'crashed')
      expect(vm.exitCode).toBe(4)
      expect(await lines(host)).toEqual(['no'])
    },
  )

  test.skipIf(skipInDetail)('fail the start with a reason if their list is invalid', { timeout: 120_000 }, async () => {
    await using host = await testAgent(config)
    await host.put(desired('echo never', programs([{ name: 'a b' }])))
    const failed = await host.until('vm-1', 'failed', vm => vm.error !== null)
    expect(failed.error).toMatchObject({ code: 'programs_invalid', message: expect.stringContaining(programsPath) })
  })
})
