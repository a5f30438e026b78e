/** Sessions in a VM with Mote's guest kernel. The agent has ended, so the test has the ports of the guest. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { testAgent, testSpec, vmmsIn } from '../../../test/support/agent/agent.ts'
import { collector, connectGuest } from '../../../test/support/agent/guest-init.ts'
import { until } from '../../../test/support/wait.ts'

const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const network = process.getuid?.() === 0 ? 'tap' : 'user'
const start = { stdout: 0, stderr: 0 }

test.skipIf(!hasQemu)(
  'a terminal in a VM survives its connection, and a pipe passes 1 MiB unchanged (needs qemu)',
  { timeout: 180_000 },
  async () => {
    await using host = await testAgent({ hypervisor: 'qemu', network })
    const spec = testSpec({ env: { GREETING: 'good day' } })
    await host.put({ vmId: 'vm-1', generation: 1, want: 'running', spec })
    await host.until('vm-1', 'healthy', vm => vm.healthy)
    await host.agent.stop()
    const dir = join(host.config.dataDir, 'vms', 'vm-1')
    expect(existsSync(join(dir, 'ctl.sock'))).toBe(true)

    const first = await connectGuest(dir)
    const command = ['sh', '-c', 'stty size; id -un; echo "$GREETING"; while read -r line; do echo "got $line"; done']
    await first.sessions.open({ sessionId: 'terminal', command, tty: { rows: 24, columns: 80 } })
    const before = collector(onData => first.sessions.attach('terminal', start, onData))
    await until(() => before.stdout().includes('good day'), { what: 'the terminal' })
    expect(before.stdout().toString()).toBe('24 80\r\nweb\r\ngood day\r\n')
    first.channel.close()
    await expect(before.attachment.ended).rejects.toThrow('closed')

    const second = await connectGuest(dir)
    const from = { stdout: before.stdout().length, stderr: 0 }
    const after = collector(onData => second.sessions.attach('terminal', from, onData))
    await second.sessions.input('terminal', 0, Buffer.from('hello\r'))
    await until(() => after.stdout().includes('got hello'), { what: 'the answer' })
    await second.sessions.signal('terminal', 9)
    expect(await after.attachment.ended).toMatchObject({ reason: 'signaled', code: 9 })

    await second.sessions.open({ sessionId: 'pipe', command: ['cat'], input: true, user: '0' })
    const pipe = collector(onData => second.sessions.attach('pipe', start, onData))
    const sent = Buffer.from(Array.from({ length: 1 << 20 }, (_, n) => (n * 7 + (n >> 8)) & 255))
    for (let at = 0; at < sent.length; at += 1 << 16)
      await second.sessions.input('pipe', at, sent.subarray(at, at + (1 << 16)))
    await second.sessions.closeInput('pipe')
    expect(await pipe.attachment.ended).toMatchObject({ reason: 'exited', code: 0 })
    expect(pipe.stdout().equals(sent)).toBe(true)
    second.channel.close()

    // The next agent adopts the VM, whose program was not disturbed.
    await host.restart()
    expect(await vmmsIn(host.config.dataDir)).toHaveLength(1)
    await host.until('vm-1', 'healthy', vm => vm.healthy)
  },
)
