/** Sessions in a VM with Mote's guest kernel. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type SessionAnswer, type SessionRequest } from '../../contract/agent.ts'
import { type TestAgent, testAgent, testSpec, vmmsIn } from '../../../test/support/agent/agent.ts'
import { collector, connectGuest } from '../../../test/support/agent/guest-init.ts'
import { driverCases } from '../../../test/support/agent/hypervisor.ts'
import { until } from '../../../test/support/wait.ts'

const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const network = process.getuid?.() === 0 ? 'tap' : 'user'
const start = { stdout: 0, stderr: 0 }

describe.skipIf(!hasQemu)('one VM with QEMU', () => {
  let host: TestAgent
  beforeAll(async () => {
    host = await testAgent({ hypervisor: 'qemu', network })
    const spec = testSpec({ env: { GREETING: 'good day' } })
    await host.put({ vmId: 'vm-1', generation: 1, want: 'running', spec })
    await host.until('vm-1', 'healthy', vm => vm.healthy)
  })
  afterAll(() => host?.[Symbol.asyncDispose]())

  test('a terminal session continues after its connection is lost, and a pipe passes 1 MiB unchanged (needs qemu)', {
    timeout: 180_000,
  }, async () => {
    // Stop the agent, so that the test can connect to the guest's ports.
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
    const sent = Buffer.alloc(1 << 20, Buffer.from(Array.from({ length: 251 }, (_, n) => n)))
    for (let at = 0; at < sent.length; at += 1 << 16)
      await second.sessions.input('pipe', at, sent.subarray(at, at + (1 << 16)))
    await second.sessions.closeInput('pipe')
    expect(await pipe.attachment.ended).toMatchObject({ reason: 'exited', code: 0 })
    expect(pipe.stdout().equals(sent)).toBe(true)
    second.channel.close()

    // The next agent adopts the running VM, in which the program of the session continued.
    await host.restart()
    expect(await vmmsIn(host.config.dataDir)).toHaveLength(1)
    await host.until('vm-1', 'healthy', vm => vm.healthy)
  })

  test('over the bus: a session continues across an agent restart without losing a byte (needs qemu)', {
    timeout: 180_000,
  }, async () => {
    const ask = async (request: SessionRequest) =>
      (await host.request('vm.session', { vmId: 'vm-1', request })) as SessionAnswer
    const from = { stdout: 0, stderr: 0 }
    let text = ''
    const readUntil = async (wanted: string) => {
      while (!text.includes(wanted)) {
        const answer = await ask({ action: 'read', sessionId: 'a', readerId: 'test', from, waitMs: 2_000 })
        for (const { stream, offset, data } of answer.action === 'read' ? answer.parts : []) {
          expect(offset).toBe(from[stream])
          from[stream] += Buffer.from(data, 'base64').length
          text += Buffer.from(data, 'base64').toString()
        }
      }
    }
    const script = 'i=0; while [ $i -lt 8000 ]; do echo line $i; i=$((i+1)); done; cat'
    await ask({ action: 'open', sessionId: 'a', command: ['sh', '-c', script], input: true })
    await readUntil('line 100\n')
    await host.restart()
    await host.until('vm-1', 'healthy', vm => vm.healthy)
    await ask({ action: 'input', sessionId: 'a', offset: 0, data: Buffer.from('done\n').toString('base64') })
    await readUntil('done\n')
    expect(text).toBe(`${Array.from({ length: 8_000 }, (_, n) => `line ${n}\n`).join('')}done\n`)
    await ask({ action: 'signal', sessionId: 'a', number: 15 })
    const last = await ask({ action: 'read', sessionId: 'a', readerId: 'test', from, waitMs: 5_000 })
    expect(last).toMatchObject({ parts: [], end: { reason: 'signaled', code: 15, total: from } })
    await expect(ask({ action: 'remove', sessionId: 'b' })).rejects.toMatchObject({ remoteCode: 'session_missing' })
    const missing = host.request('vm.session', { vmId: 'vm-2', request: { action: 'list' } })
    await expect(missing).rejects.toMatchObject({ remoteCode: 'vm_not_running' })
    const unknown = host.request('vm.session', { vmId: 'vm-1', request: { action: 'eject', sessionId: 'a' } })
    await expect(unknown).rejects.toMatchObject({ remoteCode: 'invalid_request' })
  })
})

const realCases = (await driverCases()).filter(({ spec }) => spec.hypervisor !== 'fake')

describe.each(realCases)('driver $name', ({ config, spec, skip }) => {
  test.skipIf(skip)(
    'a fork of a VM has its open session, which then continues independently in both VMs',
    { timeout: 180_000 },
    async () => {
      await using host = await testAgent(config)
      await host.put({ vmId: 'vm-1', generation: 1, want: 'running', spec: testSpec(spec) })
      await host.until('vm-1', 'healthy', vm => vm.healthy)
      const ask = async (vmId: string, request: SessionRequest) =>
        (await host.request('vm.session', { vmId, request })) as SessionAnswer
      const command = ['sh', '-c', 'echo begun; while read -r line; do echo "got $line"; done']
      await ask('vm-1', { action: 'open', sessionId: 'a', command, input: true })
      const read = (vmId: string, stdout: number) =>
        ask(vmId, { action: 'read', sessionId: 'a', readerId: vmId, from: { stdout, stderr: 0 }, waitMs: 5_000 })
      const part = (text: string, offset: number) => ({
        parts: [{ offset, data: Buffer.from(text).toString('base64') }],
        end: null,
      })
      expect(await read('vm-1', 0)).toMatchObject(part('begun\n', 0))
      await host.snapshot('snap-1', 'vm-1')
      const forked = testSpec({ ...spec, from: { snapshotId: 'snap-1', renew: true }, hostname: 'fork' })
      await host.put({ vmId: 'fork', generation: 1, want: 'running', spec: forked })
      await host.until('fork', 'healthy', vm => vm.healthy)
      for (const vmId of ['fork', 'vm-1']) {
        const data = Buffer.from(`${vmId}\n`).toString('base64')
        await ask(vmId, { action: 'input', sessionId: 'a', offset: 0, data })
        expect(await read(vmId, 6)).toMatchObject(part(`got ${vmId}\n`, 6))
        // In both VMs, a new session can run next to the session from the snapshot.
        await ask(vmId, { action: 'open', sessionId: 'b', command: ['sh', '-c', 'exit 3'] })
        const ended = { action: 'read', sessionId: 'b', readerId: 'b', from: start, waitMs: 5_000 } as const
        expect(await ask(vmId, ended)).toMatchObject({ end: { reason: 'exited', code: 3 } })
      }
    },
  )
})
