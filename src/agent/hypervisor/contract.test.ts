import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type DiskSpec,
  type HostHeartbeat,
  type HypervisorOffer,
  type LogBatch,
  type SessionRequest,
  subjects,
  type VmSpec,
} from '../../contract/agent.ts'
import { until } from '../../../test/support/wait.ts'
import { type TestAgent, testAgent, testSpec } from '../../../test/support/agent/agent.ts'
import { driverCases } from '../../../test/support/agent/hypervisor.ts'

/** Tests that every available driver shows the same behavior, through the message bus. */
describe.each(await driverCases())('driver $name', ({ config, spec, skip }) => {
  const desired = (
    generation: number,
    want: 'running' | 'paused' | 'stopped' | 'absent',
    change: Partial<VmSpec> = {},
  ) => ({
    vmId: 'vm-1',
    generation,
    want,
    spec: testSpec({ ...spec, ...change }),
  })
  const fetchText = async (endpoint: { host: string; port: number } | null) =>
    (await fetch(`http://${endpoint?.host}:${endpoint?.port}/`)).text()

  test.skipIf(skip)(
    'a VM runs, pauses, survives an agent restart, stops, runs again and is removed',
    { timeout: 180_000 },
    async () => {
      await using host = await testAgent(config)
      const { dataDir } = host.config
      const answer = await host.put(desired(5, 'running'))
      expect(answer.state).toBe('preparing')
      const running = await host.until('vm-1', 'healthy', vm => vm.healthy)
      expect(running).toMatchObject({ state: 'running', generation: 5, error: null, restartCount: 0 })
      expect(running.imageDigest).toMatch(/^sha256:/)
      expect(running.steps.map(step => step.name)).toEqual(expect.arrayContaining(['image', 'boot', 'healthy']))
      expect(await fetchText(running.endpoint)).toContain('Hello from hello-1')
      await until(async () => (await host.logs('vm-1')).some(({ line }) => line.includes('listening on port 8080')), {
        what: 'the first log line',
      })

      await host.put(desired(6, 'paused'))
      await host.until('vm-1', 'paused', vm => vm.state === 'paused' && !vm.healthy)
      await host.put(desired(7, 'running'))
      await host.until('vm-1', 'resumed', vm => vm.state === 'running' && vm.healthy)

      const record = await readFile(join(dataDir, 'vms/vm-1/record.json'), 'utf8')
      await host.restart()
      const adopted = await host.until('vm-1', 'healthy after adoption', vm => vm.healthy)
      expect(adopted).toMatchObject({
        generation: 7,
        endpoint: running.endpoint,
        restartCount: 0,
        startedAtMs: running.startedAtMs,
      })
      expect(processOf(await readFile(join(dataDir, 'vms/vm-1/record.json'), 'utf8'))).toEqual(processOf(record))
      await expect(host.put(desired(6, 'absent'))).rejects.toMatchObject({ remoteCode: 'stale_generation' })

      await host.put(desired(8, 'stopped'))
      expect((await host.until('vm-1', 'stopped', vm => vm.state === 'stopped')).endpoint).toBeNull()
      await host.put(desired(9, 'running'))
      await host.until('vm-1', 'healthy again', vm => vm.healthy)
      await host.put(desired(10, 'absent'))
      await host.until('vm-1', 'absent', vm => vm.state === 'absent')
      expect(readdirSync(join(dataDir, 'vms'))).toEqual([])
      expect((await host.logs('vm-1')).length).toBeGreaterThan(0)
      await host.restart()
      await expect(host.put(desired(9, 'running'))).rejects.toMatchObject({ remoteCode: 'stale_generation' })
    },
  )

  test.skipIf(skip)(
    'a VM whose workload exits is restarted up to maxRestarts times, then it counts as crashed',
    { timeout: 120_000 },
    async () => {
      await using host = await testAgent(config)
      const failing = {
        command: ['/bin/sh', '-c', 'echo out; echo err >&2; exit 3'],
        env: { MOTE_FAKE: 'crash' },
        maxRestarts: 1,
      }
      await host.put(desired(1, 'running', failing))
      const crashed = await host.until('vm-1', 'crashed', vm => vm.state === 'crashed')
      expect(crashed.error?.code).toBe('exited')
      expect(crashed.exitCode).toBe(3)
      expect(crashed.restartCount).toBe(1)
      expect(crashed.endpoint).toBeNull()
      if (spec.hypervisor !== 'fake') {
        const lines = (await host.logs('vm-1')).filter(({ stream }) => stream !== 'system')
        expect(lines.map(({ stream, line }) => `${stream} ${line}`).sort()).toEqual([
          'stderr err',
          'stderr err',
          'stdout out',
          'stdout out',
        ])
      }
      await host.put(desired(2, 'running'))
      await host.until('vm-1', 'healthy under a new generation', vm => vm.healthy)
    },
  )

  test.skipIf(skip)(
    'a missing image crashes the VM without a retry, and a VM can be removed while it starts',
    { timeout: 60_000 },
    async () => {
      await using host = await testAgent(config)
      await host.put(desired(1, 'running', { image: 'oci:nothing', env: { MOTE_FAKE: 'image-missing' } }))
      const crashed = await host.until('vm-1', 'crashed', vm => vm.state === 'crashed')
      expect(crashed.error?.code).toBe('image_not_found')
      await host.put(desired(2, 'running'))
      await host.until('vm-1', 'on its way', vm => vm.state !== 'crashed')
      await host.request('vm.forget', { vmId: 'vm-1', generation: 2 })
      await host.until('vm-1', 'absent', vm => vm.state === 'absent')
      expect(readdirSync(join(host.config.dataDir, 'vms'))).toEqual([])
    },
  )

  test.skipIf(skip)(
    'every capability that the driver declares works: volumes, balloon, snapshot and clone, migration',
    { timeout: 120_000 },
    async () => {
      await using host = await testAgent(config)
      await using other = await testAgent(config)
      const { capabilities } = await offerOf(host)
      await host.put(desired(1, 'running'))
      await host.until('vm-1', 'healthy', vm => vm.healthy)
      const { startedAtMs } = await host.get('vm-1')
      if (capabilities.hotplugDisk) {
        const disk = {
          volumeId: 'vol-1',
          pool: 'local',
          sizeMib: 32,
          generation: 1,
          mountPoint: '/data',
          readOnly: false,
        }
        await host.volume({ volumeId: 'vol-1' })
        await host.put(desired(2, 'running', { disks: [disk] }))
        await host.until('vm-1', 'attached', vm => vm.disks?.[0]?.state === 'attached')
        await host.volume({ volumeId: 'vol-1', generation: 2, sizeMib: 64 })
        await until(async () => (await host.volume({ volumeId: 'vol-1', generation: 2, sizeMib: 64 })).sizeMib === 64, {
          what: 'the volume has grown',
        })
        if (growsWhileItRuns(spec.hypervisor)) {
          const fill = 'dd if=/dev/zero of=/data/large bs=1M count=48 && rm /data/large'
          expect(await host.exec('vm-1', ['/bin/sh', '-c', fill])).toMatchObject({ exitCode: 0 })
        }
        if (capabilities.snapshot) await forks(host, disk)
        await host.put(desired(3, 'running'))
        await host.until('vm-1', 'detached', vm => vm.disks === undefined)
      }
      if (capabilities.balloon) {
        const heartbeats = await statsOf(host, 'vm-1')
        await host.put(desired(4, 'running', { balloonTargetMib: 100 }))
        const isTaken = () => heartbeats.some(one => one.balloonActualMib === 100 && one.ramUsedBytes > 0)
        await until(isTaken, { what: 'what the balloon leaves to it, in a beat' })
      }
      if (capabilities.snapshot) {
        expect(await host.snapshot('snap-1', 'vm-1')).toMatchObject({ state: 'ready', error: null })
        const from = { snapshotId: 'snap-1', renew: true }
        await host.put({ ...desired(1, 'running', { from, hostname: 'clone' }), vmId: 'clone' })
        const clone = await host.until('clone', 'healthy', vm => vm.healthy)
        expect(await fetchText(clone.endpoint)).toContain('Hello from clone')
      }
      expect((await host.get('vm-1')).startedAtMs).toBe(startedAtMs)
      if (capabilities.migrate === 'none') return
      await other.put(desired(1, 'running', { incoming: { migrationId: 'm-1' } }))
      const waiting = await other.until('vm-1', 'listening', vm => vm.migration?.phase === 'listening')
      const outgoing = { migrationId: 'm-1', uri: waiting.migration?.uri ?? '' }
      await host.put(desired(5, 'running', { outgoing, balloonTargetMib: 100 }))
      const left = await host.until('vm-1', 'switched', vm => vm.migration?.phase === 'switched')
      expect(left).toMatchObject({ endpoint: null, healthy: false })
      const arrived = await other.until('vm-1', 'healthy', vm => vm.healthy)
      expect(await fetchText(arrived.endpoint)).toContain('Hello from hello-1')
    },
  )

  /** Forks the VM. Expects that the fork gets a clone of its volume, and that neither VM sees the other's writes. */
  async function forks(host: TestAgent, disk: DiskSpec): Promise<void> {
    const sh = async (vmId: string, script: string) =>
      spec.hypervisor === 'fake' ? '' : (await host.exec(vmId, ['/bin/sh', '-c', script])).stdout
    // /dev/shm is in the guest's memory, so a guest that has booted again would not have this file.
    const boot = await sh('vm-1', 'echo then > /data/file; echo first boot | tee /dev/shm/boot')
    expect(await host.snapshot('snap-0', 'vm-1')).toMatchObject({ state: 'ready', disks: [{ copied: true }] })
    await sh('vm-1', 'echo parent > /data/file; sync')
    const kept = { volumeId: disk.volumeId, snapshotId: 'snap-0' }
    await host.volume({ volumeId: 'clone-1', sizeMib: 64, from: kept })
    const from = { snapshotId: 'snap-0', renew: true, clones: [{ volumeId: 'clone-1', of: disk.volumeId }] }
    const disks = [{ ...disk, volumeId: 'clone-1', sizeMib: 64 }]
    await host.put({ ...desired(1, 'running', { from, disks, hostname: 'fork' }), vmId: 'fork' })
    const { endpoint } = await host.until('fork', 'healthy', vm => vm.healthy)
    expect(await fetchText(endpoint)).toContain('Hello from fork')
    const isFake = spec.hypervisor === 'fake'
    const there = await sh('fork', 'cat /data/file /dev/shm/boot')
    expect(there).toBe(isFake ? '' : `then\n${boot}`)
    await sh('fork', 'echo fork > /data/file; sync')
    expect(await sh('vm-1', 'cat /data/file')).toBe(isFake ? '' : 'parent\n')
    await host.request('vm.forget', { vmId: 'fork', generation: 1 })
  }

  describe.skipIf(skip)('one running VM', () => {
    let host: TestAgent
    const batches: LogBatch[] = []
    beforeAll(async () => {
      host = await testAgent(config)
      await host.bus.subscribe('log.>', ({ data }) => void batches.push(data as LogBatch))
      await host.put(desired(1, 'running'))
      await host.until('vm-1', 'healthy', vm => vm.healthy)
    })
    afterAll(() => host?.[Symbol.asyncDispose]())

    test('heartbeats carry statistics, and log lines arrive over the bus in order', { timeout: 60_000 }, async () => {
      const stats: number[] = []
      await host.bus.subscribe(subjects.heartbeat(host.agent.hostId), ({ data }) => {
        const heartbeat = data as { stats: Array<{ ramUsedBytes: number; rxBytes: number }> }
        for (const one of heartbeat.stats) if (one.rxBytes > 0) stats.push(one.ramUsedBytes)
      })
      await fetchText((await host.get('vm-1')).endpoint)
      await until(() => stats.some(bytes => bytes > 0), { what: 'statistics in a beat' })
      await until(() => batches.some(({ lines }) => lines.some(({ stream }) => stream === 'stdout')), {
        what: 'a log batch',
      })
      const times = batches.flatMap(({ lines }) => lines.map(({ atUs }) => atUs))
      expect(times).toEqual([...new Set(times)].sort((a, b) => a - b))
    })

    test('a session passes input to a program and reports its exit code', { timeout: 120_000 }, async () => {
      const ask = (request: SessionRequest) => host.request('vm.session', { vmId: 'vm-1', request })
      await ask({ action: 'open', sessionId: 'a', command: ['/bin/sh', '-c', 'cat; exit 7'], input: true })
      const data = Buffer.from('hello').toString('base64')
      expect(await ask({ action: 'input', sessionId: 'a', offset: 0, data })).toMatchObject({ receivedBytes: 5 })
      await ask({ action: 'close_input', sessionId: 'a' })
      const from = { stdout: 0, stderr: 0 }
      const read = () => ask({ action: 'read', sessionId: 'a', readerId: 'test', from, waitMs: 1_000 })
      const end = { reason: 'exited', code: 7, total: { stdout: 5, stderr: 0 } }
      const complete = async () => ((await read()) as { end: unknown }).end !== null
      await until(complete, { what: 'the end of the program' })
      expect(await read()).toMatchObject({ parts: [{ stream: 'stdout', offset: 0, data }], end })
    })

    test('a session reports the changes of a directory in the VM', { timeout: 120_000 }, async () => {
      const ask = (request: SessionRequest) => host.request('vm.session', { vmId: 'vm-1', request })
      const from = { stdout: 0, stderr: 0 }
      const outputs = new Map<string, string>()
      const lines = async (sessionId: string, at = from) => {
        const answer = await ask({ action: 'read', sessionId, readerId: 'test', from: at, acked: from, waitMs: 200 })
        const { parts } = answer as { parts: { stream: string; data: string }[] }
        for (const { stream, data } of parts)
          outputs.set(`${sessionId} ${stream}`, Buffer.from(data, 'base64').toString())
        return (outputs.get(`${sessionId} stdout`) ?? '').split('\n').slice(0, -1)
      }
      let tools = 0
      const tool = async (command: string[], data?: string) => {
        const sessionId = `tool-${tools++}`
        await ask({ action: 'open', sessionId, command, fileTool: true, input: data !== undefined })
        if (data !== undefined) {
          await ask({ action: 'input', sessionId, offset: 0, data: Buffer.from(data).toString('base64') })
          await ask({ action: 'close_input', sessionId })
        }
        const read = () => ask({ action: 'read', sessionId, readerId: 'test', from, waitMs: 1_000 })
        const end = await until(async () => ((await read()) as { end: { code: number } | null }).end, {
          what: command[0] ?? '',
        })
        expect(end).toMatchObject({ code: 0 })
        await ask({ action: 'remove', sessionId })
      }
      await tool(['mkdir', '/tmp/watched/old'])
      await ask({ action: 'open', sessionId: 'w', command: ['watch', '/tmp/watched', '1'], fileTool: true })
      await until(async () => (await lines('w')).includes('watching 2'), { what: 'the watch' })
      const steps: readonly (readonly [() => Promise<void>, string | RegExp])[] = [
        [() => tool(['mkdir', '/tmp/watched/new']), 'created /tmp/watched/new'],
        [() => tool(['write', '/tmp/watched/new/a b', '644'], 'text'), /^moved \S+ \/tmp\/watched\/new\/a%20b$/],
        [
          () => tool(['move', '/tmp/watched/new/a b', '/tmp/watched/old/c']),
          'moved /tmp/watched/new/a%20b /tmp/watched/old/c',
        ],
        [() => tool(['move', '/tmp/watched/old/c', '/tmp/c']), 'removed /tmp/watched/old/c'],
        [() => tool(['move', '/tmp/c', '/tmp/watched/d']), 'created /tmp/watched/d'],
        [() => tool(['remove', '/tmp/watched/old', '1']), 'removed /tmp/watched/old'],
      ]
      for (const [step, line] of steps) {
        await step()
        const isThere = async () =>
          (await lines('w')).some(one => (line instanceof RegExp ? line.test(one) : one === line))
        await until(isThere, { what: `${line} in ${(await lines('w')).join(', ')}` })
      }
      await tool(['remove', '/tmp/watched', '1'])
      const ended = async () =>
        ((await ask({ action: 'read', sessionId: 'w', readerId: 'test', from, waitMs: 500 })) as { end: unknown }).end
      expect(await until(ended, { what: 'the end of the watch' })).toMatchObject({ reason: 'exited', code: 0 })
      expect((await lines('w')).at(-1)).toBe('removed /tmp/watched')
      await ask({ action: 'open', sessionId: 'x', command: ['watch', '/no/such/path', '1'], fileTool: true })
      await until(async () => (await lines('x'), outputs.get('x stderr')), { what: 'the message' })
      expect(outputs.get('x stderr')).toBe('/no/such/path: No such file or directory\n')
    })
  })
})

/**
 * True if a volume can grow while it is mounted. False for simulated VMs, and for gVisor if root lacks
 * CAP_SYS_RESOURCE: with gVisor, the host's kernel grows the mounted file system, which needs that Linux capability.
 */
function growsWhileItRuns(hypervisor: string | undefined): boolean {
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'
  const sysResource = 24n
  const mayGrow = ((BigInt(`0x${effective}`) >> sysResource) & 1n) === 1n
  return hypervisor !== 'fake' && (hypervisor !== 'gvisor' || mayGrow)
}

async function offerOf({ bus, agent }: TestAgent): Promise<HypervisorOffer> {
  const { promise, resolve } = Promise.withResolvers<HostHeartbeat>()
  const subscription = await bus.subscribe(subjects.heartbeat(agent.hostId), ({ data }) =>
    resolve(data as HostHeartbeat),
  )
  const [offer] = (await promise).hypervisors
  await subscription.stop()
  if (offer === undefined) throw new Error('a host without a hypervisor')
  return offer
}

/** Collects the statistics about this VM in all heartbeats from now on. */
async function statsOf({ bus, agent }: TestAgent, vmId: string): Promise<readonly HostHeartbeat['stats'][number][]> {
  const observed: HostHeartbeat['stats'] = []
  await bus.subscribe(subjects.heartbeat(agent.hostId), ({ data }) => {
    observed.push(...(data as HostHeartbeat).stats.filter(one => one.vmId === vmId))
  })
  return observed
}

function processOf(record: string): unknown {
  return JSON.parse(record).running.process
}
