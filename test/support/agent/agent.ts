import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { mkdtemp, readFile, readlink, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import type { Bus } from '../../../src/bus/bus.ts'
import { createMemoryBus } from '../../../src/bus/memory.ts'
import {
  type DiskSpec,
  type HostVerb,
  type LogLine,
  type RuntimeVerb,
  type SnapshotObserved,
  subjects,
  type VmExecAnswer,
  type VmObserved,
  type VmPut,
  type VmSpec,
  type VolumeObserved,
  type VolumePut,
  type VolumeVerb,
} from '../../../src/contract/agent.ts'
import { until } from '../wait.ts'
import { type AgentConfig, agentConfig } from '../../../src/agent/base/config.ts'
import type { FakeHost } from '../../../src/agent/hypervisor/fake/host.ts'
import { findCells } from '../../../src/agent/hypervisor/firecracker/cell.ts'
import { writeSampleImage } from '../../../src/agent/image/sample.ts'
import { type Agent, startAgent } from '../../../src/agent/main.ts'
import { disown, own } from './remains.ts'

/** An agent under test, with the operations that tests need. Dispose of it with `await using`. */
export interface TestAgent extends AsyncDisposable {
  readonly agent: Agent
  readonly bus: Bus
  readonly config: AgentConfig
  request(verb: HostVerb | RuntimeVerb | VolumeVerb, data: unknown): Promise<unknown>
  exec(vmId: string, command: readonly string[], timeoutMs?: number): Promise<VmExecAnswer>
  /** Takes a VM snapshot, and waits until it is ready or has failed. */
  snapshot(snapshotId: string, vmId: string, generation?: number): Promise<SnapshotObserved>
  put(desired: VmPut): Promise<VmObserved>
  /** Requests a volume and waits until the observed state matches the desired state. */
  volume(desired: Partial<VolumePut> & Pick<VolumePut, 'volumeId'>): Promise<VolumeObserved>
  get(vmId: string): Promise<VmObserved>
  logs(vmId: string): Promise<LogLine[]>
  until(vmId: string, what: string, holds: (vm: VmObserved) => boolean): Promise<VmObserved>
  /**
   * Stops the agent and starts another one on the same directory. VMs keep running.
   * @param meanwhile called between the two, while no agent runs
   */
  restart(meanwhile?: () => Promise<void>): Promise<void>
}

/** Long timeout, because emulated guests of several test files share two cores. */
const waitLimitMs = 60_000

export async function testDir(): Promise<{ path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), 'mote-agent-'))
  own(path)
  return {
    path,
    async [Symbol.asyncDispose]() {
      for (const pid of await vmmsIn(path)) process.kill(pid, 'SIGKILL') // a test that failed may have left VMMs running
      await rm(path, { recursive: true, force: true })
      disown(path)
    },
  }
}

/** Returns the directory of the VM to which this VMM process belongs. The result is meaningless for other processes. */
export async function vmDirOf(pid: string | number): Promise<string> {
  // Read the path from the arguments of a gVisor sandbox, because its working directory is in a root directory of its
  // own.
  const args = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  const sandbox = args.startsWith('runsc-sandbox') && /--overlay2=root:dir=([^,\0]+)\/overlay,/.exec(args)?.[1]
  return sandbox || readlink(`/proc/${pid}/cwd`).catch(() => '')
}

/** Returns the PIDs of VMM processes whose VM directory is below `dir`. */
export async function vmmsIn(dir: string): Promise<number[]> {
  const found: number[] = []
  let hasJails = false
  // Synchronous reads take much less CPU time. Tests call this function many times, and most processes are not VMMs.
  for (const name of readdirSync('/proc')) {
    if (!/^\d/.test(name)) continue
    const args = orEmpty(() => readFileSync(`/proc/${name}/cmdline`, 'utf8'))
    if (args === '') continue // a thread of the kernel, or a process that has ended
    hasJails ||= args.includes('\0--id\0')
    const program = orEmpty(() => readlinkSync(`/proc/${name}/exe`))
    if (!/qemu-system|firecracker|cloud-hypervisor|runsc/.test(program)) continue
    if ((await vmDirOf(name)).startsWith(`${dir}/`)) found.push(Number(name))
  }
  // Add jailed VMMs: they have their own root directory, so their working directory does not show the path.
  if (hasJails)
    for (const { process } of await findCells(dir)) if (!found.includes(process.pid)) found.push(process.pid)
  return found
}

/** Returns what was read about a process; an empty string if it has ended, or is a thread of the kernel. */
function orEmpty(read: () => string): string {
  try {
    return read()
  } catch {
    return ''
  }
}

export async function testAgent(given: Partial<AgentConfig>, fake?: FakeHost): Promise<TestAgent> {
  const dir = given.dataDir === undefined ? await testDir() : undefined
  const config = agentConfig({ dataDir: dir?.path ?? '', hostName: 'test', ...given })
  if (config.hypervisor !== 'fake') await writeSampleImage(join(config.imageDir, 'hello'))
  const bus = createMemoryBus()
  const log = pino({ level: process.env.MOTE_TEST_LOG ?? 'silent' })
  const start = () => startAgent(config, { bus, log, ...(fake ? { fake } : {}) })
  let agent = await start()
  const request = (verb: HostVerb | RuntimeVerb | VolumeVerb, data: unknown) =>
    bus.request(subjects.hostIn(agent.hostId, verb), data, { timeoutMs: verb === 'vm.exec' ? 60_000 : 5_000 })
  const get = async (vmId: string) => (await request('vm.get', { vmId })) as VmObserved
  return {
    get agent() {
      return agent
    },
    bus,
    config,
    request,
    get,
    exec: async (vmId, command, timeoutMs = 10_000) =>
      (await request('vm.exec', { vmId, command, timeoutMs })) as VmExecAnswer,
    snapshot: async (snapshotId, vmId, generation = 1) => {
      await request('snapshot.put', { snapshotId, vmId, generation, want: 'present' })
      const settled = async () => {
        const observed = (await request('snapshot.get', { snapshotId })) as SnapshotObserved
        return observed.state === 'creating' ? undefined : observed
      }
      return until(settled, { what: `snapshot ${snapshotId}`, timeoutMs: waitLimitMs })
    },
    volume: async given => {
      const desired: VolumePut = { generation: 1, want: 'present', pool: 'local', sizeMib: 32, ...given }
      await request('volume.put', desired)
      const settled = async () => {
        const observed = (await request('volume.get', { volumeId: desired.volumeId })) as VolumeObserved
        return ['ready', 'failed', 'absent'].includes(observed.state) ? observed : undefined
      }
      return until(settled, { what: `volume ${desired.volumeId}`, timeoutMs: waitLimitMs })
    },
    put: async desired => (await request('vm.put', desired)) as VmObserved,
    logs: async vmId => ((await request('vm.logs', { vmId, tail: 1000, afterUs: 0 })) as { lines: LogLine[] }).lines,
    until: async (vmId, what, holds) => {
      let observed: VmObserved | undefined
      const check = async () => {
        observed = await get(vmId)
        return holds(observed) ? observed : undefined
      }
      return until(check, { what: `${vmId}: ${what}`, timeoutMs: waitLimitMs }).catch((error: unknown) => {
        throw new Error(`last observed: ${JSON.stringify(observed)}`, { cause: error })
      })
    },
    async restart(meanwhile) {
      await agent.stop()
      await meanwhile?.()
      agent = await start()
    },
    async [Symbol.asyncDispose]() {
      // Remove every VM, so that a test leaves no process, tap or file behind.
      const { vms } = (await request('vm.list', {})) as { vms: VmObserved[] }
      for (const { vmId, generation } of vms) await request('vm.forget', { vmId, generation: generation + 1 })
      const empty = async () => ((await request('vm.list', {})) as { vms: VmObserved[] }).vms.length === 0
      await until(empty, { what: 'all VMs absent', timeoutMs: waitLimitMs })
      await agent.stop()
      await bus.close()
      await dir?.[Symbol.asyncDispose]()
    },
  }
}

/** Returns a disk of 32 MiB for a VM, which it mounts at /data to read and write. */
export const testDisk = (volumeId: string, generation: number, change: Partial<DiskSpec> = {}): DiskSpec => ({
  volumeId,
  pool: 'local',
  sizeMib: 32,
  generation,
  mountPoint: '/data',
  readOnly: false,
  ...change,
})

export function testSpec(change: Partial<VmSpec> = {}): VmSpec {
  return {
    projectId: 'p1',
    appId: 'a1',
    deploymentId: 'd1',
    hostname: 'hello-1',
    hypervisor: 'qemu',
    image: 'oci:hello',
    vcpus: 1,
    memoryMib: 128,
    diskMib: 64,
    env: {},
    port: 8080,
    healthCheckPath: '/health',
    ipv6Address: 'fd00::1',
    maxRestarts: 0,
    restarts: 0,
    balloonTargetMib: null,
    disks: [],
    ...change,
  }
}
