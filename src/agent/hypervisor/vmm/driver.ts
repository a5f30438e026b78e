import { arch, release } from 'node:os'
import { isRunning } from '../../../lib/process-identity.ts'
import type { GuestKernel } from '../../guest/kernel.ts'
import { unbindBelow } from '../bind.ts'
import type { Driver, RunningVm, Running, VmHome } from '../driver.ts'
import type { Isolation } from '../isolation.ts'
import { type PrepareDeps, prepareFrom, prepareVm } from '../prepare.ts'
import { endProcess } from '../process.ts'
import { hostCpu } from '../snapshot-files.ts'
import { hasMark } from '../transfer/marks.ts'
import { bootVm, restoreVm } from './boot.ts'
import { adoptedWorkload, connectGuest, type LaunchPlan, type RunningVmInput, runningVmFor } from './launch.ts'
import type { Platform } from './platform.ts'
import { probeVmm } from './probe.ts'
import { receiveVm } from './receive.ts'

export interface VmmDriverDeps extends PrepareDeps {
  readonly kernel: () => Promise<GuestKernel>
  readonly cacheDir: string
  readonly isolation: Isolation
  /** Maximum time from a guest's start until it starts its workload. */
  readonly bootLimitMs: number
  /** The address on which this host receives VMs from other hosts. */
  readonly migrationHost: () => string
}

/** Builds the driver of a VMM with an HTTP API, whose guests use vsock. */
export function vmmDriver(deps: VmmDriverDeps, platform: Platform): Driver {
  const { isolation, network } = deps
  const apart = isolation.ownNetworks ? network.apart : undefined
  const prepareDeps: PrepareDeps = apart ? { ...deps, device: 'apart' } : deps
  const { name, migrate } = platform
  let kind: Promise<string> | undefined
  const madeBy = () => (kind ??= kindOf(platform))
  const planFor = async (rest: Pick<LaunchPlan, 'home' | 'prepared' | 'boot' | 'watcher'>): Promise<LaunchPlan> => ({
    ...rest,
    isolation,
    apart,
    madeBy: await madeBy(),
    limitMs: deps.bootLimitMs,
    fromSeq: 0,
  })
  return {
    name,
    capabilities: { pause: true, snapshot: true, hotplugDisk: true, balloon: true, migrate },
    showsDrives: true,
    keepsVolumes: true,
    network: network.mode,
    probe: signal => probeVmm({ ...deps, userOf: isolation.userOf }, platform, signal),
    snapshotKind: madeBy,
    prepare: async (home, context) =>
      home.from
        ? prepareFrom(prepareDeps, home, home.from, await madeBy(), context)
        : prepareVm(prepareDeps, home, context),
    async boot(home, prepared, boot, watcher, context) {
      const plan = await planFor({ home, prepared, boot, watcher })
      return home.from ? restoreVm(platform, plan, home.from, context) : bootVm(platform, deps, plan, context)
    },
    receive: async (home, prepared, boot, watcher, context) =>
      receiveVm(platform, deps.migrationHost(), await planFor({ home, prepared, boot, watcher }), context),
    adopt: async (home, running, fromSeq, watcher) =>
      adoptVm(platform, home, running, { isolation, fromSeq, watcher, madeBy: await madeBy() }),
    async release(vmId, dir) {
      await isolation.cgroups?.release(vmId)
      await platform.release(dir)
      await unbindBelow(dir)
      await network.release(vmId)
    },
    async reclaim(keep) {
      await platform.reclaim(keep)
      await isolation.cgroups?.reclaim(keep)
      await network.reclaim(keep)
    },
    async close() {
      await isolation.cgroups?.close()
      await network.close()
    },
  }
}

/** Returns `madeBy`. Snapshots depend on CPU model and host kernel. `1` is the version of the VM's device layout. */
async function kindOf(platform: Platform): Promise<string> {
  return `${platform.name} ${await platform.version()} layout 1, ${arch()}, ${hostCpu()}, Linux ${release()}`
}

/** Reconnects to the VMM that an earlier agent started. Undefined if it has exited or does not respond. */
async function adoptVm(
  platform: Platform,
  home: VmHome,
  running: Running,
  follow: Omit<RunningVmInput, 'home' | 'running' | 'guest'>,
): Promise<RunningVm | undefined> {
  if (!isRunning(running.process) || !(await platform.owns(home, running))) return undefined
  try {
    if (hasMark(home.dir, 'arriving')) throw new Error('the migration of the VM to this host was not completed')
    const state = await platform.inspect(platform.api(home.dir))
    const guest = connectGuest(platform, home.dir, running, follow)
    const workload = await adoptedWorkload(guest, state)
    return runningVmFor(platform, { home, running, guest, ...follow }, workload)
  } catch {
    // The process cannot be managed without its socket, so it is killed.
    await endProcess(running)
    return undefined
  }
}
