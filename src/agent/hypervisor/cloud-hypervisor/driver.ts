import { arch, release } from 'node:os'
import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import { isRunning } from '../../../lib/process-identity.ts'
import { vsockPorts } from '../../guest/ports.ts'
import { StepError } from '../../vm/errors.ts'
import type { Driver, Machine, Running, VmHome, Watcher } from '../driver.ts'
import { type Isolation, runDir } from '../isolation.ts'
import { adoptedWorkload, connectGuest, type LaunchPlan, machineFor, type Platform } from '../launch.ts'
import { parseWorkload } from '../machine.ts'
import { type PrepareDeps, prepareFrom, prepareVm } from '../prepare.ts'
import { endProcess } from '../process.ts'
import { hostCpu } from '../snapshot-files.ts'
import { clearMark, hasMark } from '../transfer/marks.ts'
import { bootVm, restoreVm } from './boot.ts'
import {
  type Cell,
  cellUser,
  cloudHypervisorApi,
  makeCell,
  processesIn,
  spawnCloudHypervisor,
  vsockSocket,
} from './cell.ts'
import { consoles } from './consoles.ts'
import { handOver } from './migrate.ts'
import { probeCloudHypervisor } from './probe.ts'
import { receiveVm } from './receive.ts'
import { inspect, readMemory, setBalloon, setPaused, takeSnapshot, volumes } from './vmm.ts'

export interface CloudHypervisorDeps extends PrepareDeps {
  readonly cacheDir: string
  readonly isolation: Isolation
  /** Undefined: not installed. */
  readonly program: string | undefined
  /** A guest that has not started its workload by then is hung. */
  readonly bootLimitMs: number
  /** The address where VMs from other hosts arrive. */
  readonly migrationHost: string
}

/** Cloud Hypervisor v53 with KVM, over its API on a unix socket; the guest talks over vsock. */
export function cloudHypervisorDriver(deps: CloudHypervisorDeps): Driver {
  const { isolation, network } = deps
  const platform = cloudHypervisorPlatform(deps)
  let kind: Promise<string> | undefined
  const madeBy = () => (kind ??= kindOf(installed(deps)))
  const planFor = async (rest: Pick<LaunchPlan, 'home' | 'prepared' | 'boot' | 'watcher'>): Promise<LaunchPlan> => ({
    ...{ ...rest, isolation, madeBy: await madeBy(), limitMs: deps.bootLimitMs, fromSeq: 0 },
  })
  return {
    name: 'cloud-hypervisor',
    capabilities: { pause: true, snapshot: true, hotplugDisk: true, balloon: true, migrate: 'live' },
    network: network.mode,
    probe: signal => probeCloudHypervisor(deps, signal),
    snapshotKind: madeBy,
    async prepare(home, context) {
      refuseDrives(home)
      return home.from ? prepareFrom(deps, home, home.from, await madeBy()) : prepareVm(deps, home, context)
    },
    async boot(home, prepared, boot, watcher, context) {
      const plan = await planFor({ home, prepared, boot, watcher })
      if (home.from) return restoreVm(platform, plan, home.from, context)
      return bootVm(platform, deps, plan, context)
    },
    receive: async (home, prepared, boot, watcher, context) =>
      receiveVm(platform, deps.migrationHost, await planFor({ home, prepared, boot, watcher }), context),
    adopt: async (home, running, fromSeq, watcher) =>
      adoptVm(platform, deps, home, running, { fromSeq, watcher, madeBy: await madeBy() }),
    async release(vmId) {
      await isolation.cgroups?.release(vmId)
      await network.release(vmId)
    },
    async reclaim(keep) {
      await isolation.cgroups?.reclaim(keep)
      await network.reclaim(keep)
    },
    async close() {
      await isolation.cgroups?.close()
      await network.close()
    },
  }
}

/** Its own memory and buffers, and a part of the disks' cache. */
const overheadMib = 256

function cloudHypervisorPlatform(deps: CloudHypervisorDeps): Platform<Cell> {
  const console = consoles()
  return {
    overheadMib,
    async start({ dir }, user) {
      for (const process of await processesIn(dir)) await endProcess({ process })
      for (const mark of ['arriving', 'left'] as const) await clearMark(dir, mark)
      const cell = await makeCell(dir, cellUser(user))
      const process = await spawnCloudHypervisor(dir, cell, installed(deps))
      console.follow(dir, process.identity)
      return { cell, process }
    },
    api: cloudHypervisorApi,
    greeting: '/vmm.ping',
    ports: vmDir => vsockPorts(join(vmDir, runDir), vsockSocket),
    consoleTail: vmDir => Promise.resolve(console.tail(vmDir)),
    forget: console.forget,
    vmm(vm) {
      const context = { ...vm, user: cellUser(vm.user) }
      const { api, vmDir } = vm
      return {
        inspect: () => inspect(api),
        pause: () => setPaused(api, true),
        resume: () => (hasMark(vmDir, 'left') ? Promise.reject(runsElsewhere()) : setPaused(api, false)),
        readMemory: () => readMemory(context),
        setBalloon: targetMib => setBalloon(context, targetMib),
        snapshot: (target, logSeq) => takeSnapshot(context, target, logSeq),
        ...volumes(context),
        handOver: (uri, onProgress, signal) => handOver(context, uri, onProgress, signal),
        hasLeft: () => Promise.resolve(hasMark(vmDir, 'left')),
      }
    },
  }
}

function runsElsewhere(): Error {
  return new Error('the VM runs on another host')
}

function installed({ program }: CloudHypervisorDeps): string {
  if (program) return program
  const fix = 'set MOTE_CLOUD_HYPERVISOR_BIN'
  throw new StepError('unsupported_by_hypervisor', `Cloud Hypervisor is not installed here: ${fix}`)
}

function refuseDrives({ drives = [] }: VmHome): void {
  if (drives.length > 0) throw new StepError('unsupported_by_hypervisor', 'cloud-hypervisor shows no raw drives yet')
}

/** `1` counts changes of the machine's layout. Snapshots move neither between CPU models nor between host kernels. */
async function kindOf(program: string): Promise<string> {
  const version = /v([\d.]+\S*)/.exec(await run(program, ['--version']))?.[1] ?? 'unknown'
  return `cloud-hypervisor ${version} layout 1, ${arch()}, ${hostCpu()}, Linux ${release()}`
}

/** Finds the process that an earlier agent left; undefined when it has gone or cannot be talked to. */
async function adoptVm(
  platform: Platform<Cell>,
  { isolation }: CloudHypervisorDeps,
  home: VmHome,
  running: Running,
  follow: { readonly fromSeq: number; readonly watcher: Watcher; readonly madeBy: string },
): Promise<Machine | undefined> {
  // The working directory too: after a reboot of the host, pid and start time may by chance be those of a stranger.
  const ours = (await processesIn(home.dir)).some(({ pid }) => pid === running.process.pid)
  if (!ours || !isRunning(running.process)) return undefined
  try {
    if (hasMark(home.dir, 'arriving')) throw new Error('half of a VM')
    const state = await inspect(platform.api(home.dir))
    const guest = connectGuest(platform, home.dir, running, follow)
    const status = await adoptedWorkload(guest, state)
    return machineFor(platform, { home, running, guest, isolation, ...follow }, parseWorkload(status))
  } catch {
    // Alive but not ours to talk to: without its socket it cannot be run, only ended.
    await endProcess(running)
    return undefined
  }
}
