import { arch } from 'node:os'
import { join } from 'node:path'
import { allDone } from '../../../lib/all-done.ts'
import { once } from '../../../lib/once.ts'
import { isRunning } from '../../../lib/process-identity.ts'
import { buildInit } from '../../guest/init.ts'
import { nativeProgram } from '../../guest/native.ts'
import type { Launcher } from '../../launcher/launcher.ts'
import type { Driver, RunningVm, Running, VmHome, Watcher } from '../driver.ts'
import { identity, identityMs } from '../identity.ts'
import type { Isolation } from '../isolation.ts'
import { type PrepareDeps, prepareFrom, prepareVm, readNotes } from '../prepare.ts'
import { endProcess } from '../process.ts'
import { parseWorkload } from '../running-vm.ts'
import { hostCpu } from '../snapshot-files.ts'
import { clearMark, hasMark } from '../transfer/marks.ts'
import { adoptedWorkload } from '../vmm/launch.ts'
import { followConsole } from './console.ts'
import { receiveSandbox } from './migrate.ts'
import { probeRunsc } from './probe.ts'
import { openRunsc, runscRoot, runscVersion } from './runsc.ts'
import { sandboxVm, snapshotInit } from './running-vm.ts'
import { connectSandbox, sandboxId, type SandboxStart, startSandbox, vmOf } from './start.ts'
import { mountDrives, mountKept, openVolumes, releaseVolumes } from './volumes.ts'

export interface GvisorDeps extends PrepareDeps {
  readonly cacheDir: string
  readonly dataDir: string
  readonly isolation: Isolation
  readonly launcher: Launcher
  /** Maximum time from a guest's start until it starts its workload. */
  readonly bootLimitMs: number
  /** Path of runsc; undefined if it is not installed. */
  readonly program: string | undefined
  readonly onProgress: (line: string) => void
  /** The address on which this host receives VMs from other hosts. */
  readonly migrationHost: () => string
}

/**
 * The driver for gVisor, an application kernel in user space that its authors maintain as a security boundary. It runs
 * programs at native speed on hosts without KVM (https://gvisor.dev/docs/).
 */
export function gvisorDriver(deps: GvisorDeps): Driver {
  const { isolation, launcher, network, cacheDir, dataDir } = deps
  const runsc = openRunsc(deps.program ?? 'runsc', runscRoot(dataDir))
  const prepareDeps: PrepareDeps = { ...deps, device: 'namespace', form: 'mapped', kernel: undefined }
  const init = once(() => buildInit(cacheDir, deps.onProgress))
  // Optional: without a C compiler on the host, the sandbox's pipes are not enlarged, and sessions transfer data more
  // slowly.
  const widener = once(() => nativeProgram(cacheDir, new URL('./wide-pipes.c', import.meta.url)).catch(() => undefined))
  const madeBy = once(async () => `gvisor ${await runscVersion(runsc.program)} layout 1, ${arch()}, ${hostCpu()}`)
  const startOf = async (
    home: VmHome,
    rest: Pick<SandboxStart, 'prepared' | 'boot' | 'watcher'>,
  ): Promise<SandboxStart> => {
    const from = home.from && {
      init: join(home.from.dir, snapshotInit),
      checkpoint: home.from.dir,
      fromSeq: Number(home.from.made.notes.logSeq),
    }
    return {
      ...rest,
      home,
      runsc,
      isolation,
      launcher,
      widener: await widener(),
      limitMs: deps.bootLimitMs,
      ...(from ?? { init: await init(), fromSeq: 0 }),
    }
  }
  return {
    name: 'gvisor',
    capabilities: { pause: true, snapshot: true, hotplugDisk: true, balloon: false, migrate: 'stop-and-copy' },
    showsDrives: true,
    mountsDrives: true,
    keepsVolumes: true,
    movesSnapshots: true,
    network: network.mode,
    probe: signal => probeRunsc({ ...deps, init }, signal),
    snapshotKind: madeBy,
    async prepare(home, context) {
      const made = await madeBy()
      const parts = home.from
        ? prepareFrom(prepareDeps, home, home.from, made, context)
        : prepareVm(prepareDeps, home, context)
      const [prepared] = await allDone([parts, openVolumes(home.dir, launcher.run)])
      return prepared
    },
    async boot(home, prepared, boot, watcher, context) {
      for (const mark of ['arriving', 'left'] as const) await clearMark(home.dir, mark)
      await mountKept(home.dir, home.from?.disks ?? [])
      await mountDrives(home.dir, home.drives ?? [])
      const plan = await startOf(home, { prepared, boot, watcher })
      const parts = async () => ({ runsc, home, watcher, isolation, madeBy: await madeBy(), fromSeq: plan.fromSeq })
      return startSandbox(plan, context, async sandbox => {
        const { guest, unlessEnded } = sandbox
        const status = await context.time('boot', async () => {
          await home.from?.beforeRun?.()
          const first = await unlessEnded(guest.ready)
          if (!home.from) return first
          const how = { moved: true, renew: home.from.renew }
          await unlessEnded(guest.request(`identity ${identity(home, readNotes(prepared), how)}`, identityMs))
          return unlessEnded(guest.ready)
        })
        return sandboxVm({ ...(await parts()), ...sandbox }, parseWorkload(status))
      })
    },
    async receive(home, prepared, boot, watcher, context) {
      await clearMark(home.dir, 'left')
      const plan = { ...(await startOf(home, { prepared, boot, watcher })), waits: true }
      const here = { host: deps.migrationHost(), madeBy: await madeBy() }
      return receiveSandbox(plan, here, context, (sandbox, workload) =>
        sandboxVm({ ...sandbox, runsc, home, watcher, isolation, madeBy: here.madeBy, fromSeq: 0 }, workload),
      )
    },
    adopt: async (home, running, fromSeq, watcher) =>
      adoptSandbox({ runsc, isolation, madeBy: await madeBy() }, home, running, { fromSeq, watcher }),
    closeVolumes: releaseVolumes,
    async release(vmId, dir) {
      await isolation.cgroups?.release(vmId)
      await releaseVolumes(dir)
      for (const id of await runsc.list()) if (vmOf(id) === vmId) await runsc.remove(id)
      await network.release(vmId)
    },
    async reclaim(keep) {
      await isolation.cgroups?.reclaim(keep)
      for (const id of await runsc.list()) {
        if (keep.has(vmOf(id))) continue
        await runsc.remove(id)
        await releaseVolumes(join(dataDir, 'vms', vmOf(id)))
      }
      await network.reclaim(keep)
    },
    async close() {
      await isolation.cgroups?.close()
      await network.close()
    },
  }
}

/** Reconnects to a sandbox that an earlier agent started. Undefined if it has exited or does not respond. */
async function adoptSandbox(
  deps: Pick<Parameters<typeof sandboxVm>[0], 'runsc' | 'isolation' | 'madeBy'>,
  home: VmHome,
  running: Running,
  follow: { readonly fromSeq: number; readonly watcher: Watcher },
): Promise<RunningVm | undefined> {
  if (!isRunning(running.process)) return undefined
  const id = sandboxId(home.vmId, running.boot)
  try {
    if (hasMark(home.dir, 'arriving')) throw new Error('the migration of the VM to this host was not completed')
    const state = await deps.runsc.inspect(id)
    if (state === 'stopped') throw new Error('the sandbox has ended')
    const guest = connectSandbox(home.dir, running, follow)
    const workload = await adoptedWorkload(guest, state)
    return sandboxVm({ ...deps, ...follow, id, home, running, guest, console: followConsole(home.dir) }, workload)
  } catch {
    await endProcess(running)
    return undefined
  }
}
