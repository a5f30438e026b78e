/** Tests migrations whose desired state changes or whose agent restarts before they are complete. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { type MigrationObserved, type VmObserved } from '../../contract/agent.ts'
import { fakeDriver } from '../hypervisor/fake/driver.ts'
import { createFakeHost } from '../hypervisor/fake/host.ts'
import type { Arrival, RunningVm } from '../hypervisor/driver.ts'
import { testAgent, testDir, testSpec } from '../../../test/support/agent/agent.ts'
import { receive } from './migration.ts'
import { VmRecordFile } from './record-file.ts'
import { newRecord } from './record.ts'

const migration: MigrationObserved = {
  migrationId: 'm-1',
  role: 'target',
  phase: 'listening',
  uri: 'tcp://here',
  percent: 0,
  transferredBytes: 0,
  totalBytes: 0,
  downtimeMs: null,
  error: null,
}
const prepared = { imageDigest: 'sha256:0', endpoint: { host: '127.0.0.1', port: 1 }, notes: {} }
const instant = { imageMs: 0, bootMs: 0, healthyMs: 0, stopMs: 0, logEveryMs: 0 }
const running = { prepared, process: { pid: 1, startTicks: 0 }, boot: 1 }

describe('a newer desired state for a VM that is arriving on this host', () => {
  /**
   * Starts to receive a VM; the test controls when the VM arrives.
   * @param hasRun whether the guest has already run on this host
   */
  const arriving = async (hasRun: boolean) => {
    const coming = Promise.withResolvers<RunningVm>()
    const [abort, ending, listening] = [new AbortController(), new AbortController(), Promise.withResolvers<void>()]
    const cancelled: string[] = []
    const arrival: Arrival = {
      running,
      uri: 'tcp://here',
      arrived: coming.promise,
      hasRun: () => hasRun,
      cancel: async () => void cancelled.push('cancelled'),
    }
    const dir = await testDir()
    const recordFile = new VmRecordFile(newRecord, async () => undefined)
    const driver = fakeDriver(createFakeHost(instant), dir.path)
    const runningVm = receive(
      {
        driver,
        recordFile,
        volumes: { leaving: () => ({ send: async () => undefined }) },
        onLeft: () => undefined,
        onLost: () => undefined,
        desired: () => ({ spec: testSpec() }),
        nextChange: () => Promise.resolve(),
        onChange: () => (recordFile.record.migration?.phase === 'listening' ? listening.resolve() : undefined),
      },
      'm-1',
      { prepare: async () => prepared, listen: async () => arrival, signal: abort.signal, ending: ending.signal },
    )
    await listening.promise
    const phase = () => recordFile.record.migration?.phase
    return { runningVm, abort, ending, cancelled, phase, coming, [Symbol.asyncDispose]: dir[Symbol.asyncDispose] }
  }

  test('does not kill a guest that has already run on this host: the arrival completes first', async () => {
    await using come = await arriving(true)
    come.abort.abort(new Error('superseded'))
    // A placeholder for the guest. The code under test uses none of its members.
    const guest: RunningVm = Object.create(null)
    come.coming.resolve(guest)
    expect(await come.runningVm).toBe(guest)
    expect(come.cancelled).toEqual([])
    expect(come.phase()).toBe('switched')
  })

  test('kills a guest that has not run on this host, and a guest whose arrival fails after it has run', async () => {
    await using early = await arriving(false)
    early.abort.abort(new Error('superseded'))
    expect(await early.runningVm).toBeUndefined()
    expect(early.cancelled).toEqual(['cancelled'])
    expect(early.phase()).toBe('cancelled')
    await using broken = await arriving(true)
    broken.abort.abort(new Error('superseded'))
    broken.coming.reject(new Error('its guest does not answer'))
    expect(await broken.runningVm).toBeUndefined()
    expect(broken.cancelled).toEqual(['cancelled'])
    expect(broken.phase()).toBe('switched')
  })

  test('does not prevent the agent from stopping', async () => {
    await using come = await arriving(true)
    come.abort.abort(new Error('superseded'))
    await setImmediate()
    come.ending.abort(new Error('the agent ends'))
    await expect(come.runningVm).rejects.toThrow('the agent ends')
    expect(come.cancelled).toEqual([])
  })
})

test('an agent that adopts a migrated VM records the arrival if the earlier agent stopped before it did', async () => {
  await using dir = await testDir()
  const spec = testSpec({ hypervisor: 'fake' })
  const config = { hypervisor: 'fake', dataDir: dir.path } as const
  const host = await testAgent(config)
  await host.put({ vmId: 'vm-1', generation: 1, want: 'running', spec })
  await host.until('vm-1', 'running', vm => vm.state === 'running' && vm.healthy)
  await host.agent.stop()
  await host.bus.close()
  const change = async (name: string, by: (value: object) => object) => {
    const file = join(dir.path, 'vms', 'vm-1', name)
    await writeFile(file, JSON.stringify(by(JSON.parse(await readFile(file, 'utf8')))))
  }
  await change('record.json', record => ({ ...record, migration }))
  await change('wish.json', desired => ({ ...desired, spec: { ...spec, incoming: { migrationId: 'm-1' } } }))
  await using next = await testAgent(config)
  const observed: VmObserved = await next.get('vm-1')
  expect(observed.migration).toMatchObject({ migrationId: 'm-1', phase: 'switched', percent: 100 })
})

describe('a VM that waits for the control plane before it migrates', () => {
  const outgoing = (uri: string, waits?: boolean) => ({
    outgoing: { migrationId: 'm-1', uri, ...(waits ? { waits } : {}) },
  })
  const twoHosts = async () => {
    const cleanup = new AsyncDisposableStack()
    const fake = { hypervisor: 'fake' } as const
    const [source, target] = [cleanup.use(await testAgent(fake)), cleanup.use(await testAgent(fake))]
    await source.put({ vmId: 'vm-1', generation: 1, want: 'running', spec: testSpec({ hypervisor: 'fake' }) })
    await source.until('vm-1', 'healthy', vm => vm.healthy)
    await target.put({
      vmId: 'vm-1',
      generation: 1,
      want: 'running',
      spec: testSpec({ hypervisor: 'fake', incoming: { migrationId: 'm-1' } }),
    })
    const { migration: observed } = await target.until('vm-1', 'listening', vm => vm.migration?.phase === 'listening')
    const uri = observed?.uri ?? ''
    await source.put({
      vmId: 'vm-1',
      generation: 2,
      want: 'running',
      spec: testSpec({ hypervisor: 'fake', ...outgoing(uri, true) }),
    })
    const waiting = await source.until('vm-1', 'ready', vm => vm.migration?.ready === true)
    expect(waiting).toMatchObject({ state: 'running', healthy: true, migration: { phase: 'copying' } })
    return { source, target, uri, [Symbol.asyncDispose]: () => cleanup.disposeAsync() }
  }

  test('migrates once the control plane releases it', async () => {
    await using hosts = await twoHosts()
    const { source, target, uri } = hosts
    await source.put({
      vmId: 'vm-1',
      generation: 3,
      want: 'running',
      spec: testSpec({ hypervisor: 'fake', ...outgoing(uri) }),
    })
    const left = await source.until('vm-1', 'switched', vm => vm.migration?.phase === 'switched')
    expect(left.migration?.ready).toBe(false)
    await target.until('vm-1', 'healthy', vm => vm.healthy)
  })

  test('stays on the source and is healthy if the migration is cancelled', async () => {
    await using hosts = await twoHosts()
    const { source } = hosts
    await source.put({ vmId: 'vm-1', generation: 3, want: 'running', spec: testSpec({ hypervisor: 'fake' }) })
    const stays = await source.until('vm-1', 'cancelled', vm => vm.migration?.phase === 'cancelled')
    expect(stays).toMatchObject({ state: 'running', healthy: true })
  })
})
