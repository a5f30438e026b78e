import { arch } from 'node:os'
import { once } from '../../../lib/once.ts'
import type { GuestKernel } from '../../guest/kernel.ts'
import { hostTscKhz } from '../../guest/tsc.ts'
import type { Driver, RunningVm, VmHome } from '../driver.ts'
import { adoptVm } from './adopt.ts'
import { kernelArgs } from './argv.ts'
import { bootVm } from './boot.ts'
import { heldBy } from './host-faults.ts'
import { hostCpu } from '../snapshot-files.ts'
import type { Isolation } from '../isolation.ts'
import { clearMark } from '../transfer/marks.ts'
import type { Launcher } from '../../launcher/launcher.ts'
import { type PrepareDeps, prepareFrom, prepareVm } from '../prepare.ts'
import { probeQemu } from './probe.ts'
import { sharedMemoryEnv } from './private-memory.ts'
import { inspectQemu } from './program.ts'
import { receiveVm } from './receive.ts'
import { restoreVm } from './restore.ts'
import { openTemplates } from './templates.ts'

export interface QemuDeps extends PrepareDeps {
  readonly kernel: () => Promise<GuestKernel>
  readonly cacheDir: string
  readonly isolation: Isolation
  readonly launcher: Launcher
  /** Timeout for a guest to start its workload. */
  readonly bootLimitMs: number
  /** The address on which this host receives VMs from other hosts. */
  readonly migrationHost: () => string
  /** Limit on the disk space for all templates of this host, in MiB; 0 disables templates. */
  readonly templateMib: number
  readonly onError: (error: unknown) => void
}

/**
 * The driver for QEMU's microvm machine. It uses KVM if a test boot passes, otherwise emulation (TCG), which works on
 * any Linux host.
 */
export function qemuDriver(deps: QemuDeps): Driver {
  const { isolation, launcher, cacheDir, templateMib, onError } = deps
  const templates = openTemplates({ cacheDir, maxMib: templateMib, onError })
  let accel: 'kvm' | 'tcg' = 'tcg'
  let tscKhz: Promise<number> | undefined
  const program = once(inspectQemu)
  const memoryEnv = once(async () => ((await program()).memoryNeedsName ? sharedMemoryEnv(cacheDir) : {}))
  const itsQemu = async () => ({ program: await program(), memoryEnv: await memoryEnv() })
  /** The current `RunningVm` of each VM. A VM that migrated to this host is added when the agent restarts. */
  const runningVms = new Map<string, RunningVm>()
  const known = ({ vmId }: VmHome, runningVm: RunningVm) => {
    runningVms.set(vmId, runningVm)
    return runningVm
  }
  const madeBy = async () => kindOf((await program()).version, accel)
  const ahead = { ...deps, device: 'ahead' } as const
  const held = (vmId: string) => heldBy(deps.network, vmId)
  const shared = { isolation, launcher, held, limitMs: deps.bootLimitMs }
  return {
    name: 'qemu',
    capabilities: { pause: true, snapshot: true, hotplugDisk: true, balloon: true, migrate: 'live' },
    opensLuks: true,
    showsDrives: true,
    keepsVolumes: true,
    movesVolumes: true,
    movesPaused: true,
    movesSnapshots: true,
    network: deps.network.mode,
    async probe(signal) {
      const proof = await probeQemu(deps.cacheDir, deps.kernel, signal, program)
      accel = proof.accel
      const { available, detail } = proof
      return { available, detail, emulated: accel === 'tcg' }
    },
    snapshotKind: madeBy,
    prepare: async (home, context) =>
      home.from ? prepareFrom(ahead, home, home.from, await madeBy(), context) : prepareVm(ahead, home, context),
    async boot(home, prepared, boot, watcher, context) {
      const plan = { home, prepared, boot, accel, watcher, ...(await itsQemu()), ...shared }
      // Clear the marks of an earlier migration: because of them, a restarted agent would kill the VM or not start it.
      await Promise.all([clearMark(home.dir, 'arriving'), clearMark(home.dir, 'left')])
      if (home.from) return known(home, await restoreVm(deps, plan, home.from, await madeBy(), context))
      const kernel = await deps.kernel()
      const args = kernelArgs(await (tscKhz ??= hostTscKhz()), kernel.devices)
      const whole = { ...plan, kernel, kernelArgs: args }
      return known(home, await bootVm({ ...deps, templates }, whole, await madeBy(), context))
    },
    copierOf: vmId => runningVms.get(vmId)?.copyDisk,
    async receive(home, prepared, boot, watcher, context) {
      const plan = { home, prepared, boot, accel, watcher, ...(await itsQemu()), ...shared }
      return receiveVm(deps, plan, await madeBy(), context)
    },
    async adopt(home, running, fromSeq, watcher) {
      const runningVm = await adoptVm(deps, home, running, { fromSeq, watcher, madeBy: await madeBy() })
      return runningVm && known(home, runningVm)
    },
    async release(vmId) {
      runningVms.delete(vmId)
      await Promise.all([isolation.cgroups?.release(vmId), deps.network.release(vmId)])
    },
    async reclaim(keep) {
      await isolation.cgroups?.reclaim(keep)
      await deps.network.reclaim(keep)
    },
    async close() {
      await templates.close()
      await isolation.cgroups?.close()
      await deps.network.close()
    },
  }
}

/**
 * Returns `madeBy`. With emulation the CPU model is QEMU's own, with KVM the host's. `1` is the version of the VM's
 * device layout.
 */
function kindOf(version: string, accel: 'kvm' | 'tcg'): string {
  return `qemu ${version} microvm 1, ${arch()}, ${accel === 'kvm' ? hostCpu() : 'tcg max'}`
}
