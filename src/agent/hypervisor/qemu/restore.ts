import { join } from 'node:path'
import type { RunningVm, SnapshotSource } from '../driver.ts'
import type { PrepareContext } from '../../base/prepare-context.ts'
import type { QemuDeps } from './driver.ts'
import { identity, identityMs } from '../identity.ts'
import { hotplug } from './hotplug.ts'
import { type Launch, launch } from './launch.ts'
import { enableMemoryStats } from './balloon.ts'
import { parseWorkload } from '../running-vm.ts'
import { copyWritable, scratchFile } from '../snapshot-files.ts'
import { qemuVm } from './running-vm.ts'
import { runDir } from '../isolation.ts'
import { readNotes } from '../prepare.ts'
import { assertPrivate, privateMemoryEnv } from './private-memory.ts'
import { rescanDisks } from './rescan.ts'
import { addressesOf, snapshotFiles } from './snapshot.ts'
import { loadState } from './state-file.ts'

/**
 * Size in MiB of the buffer for translated code in a clone. With the default size, a clone that serves one page uses 24
 * MiB of the buffer and 45 MiB in total (PSS); with 16 MiB, it uses 38 MiB in total. The buffer is then flushed once,
 * which delays the first page by 60 ms. So a VM that shares its memory with no clone gets the default.
 */
const cloneCodeMib = 16

/**
 * Restores a VM from a snapshot. The guest's memory is a private mapping of the snapshot's file, so clones share
 * unchanged pages. The network link stays down until the guest has its own addresses.
 */
export async function restoreVm(
  deps: Pick<QemuDeps, 'cacheDir'>,
  plan: Omit<Launch, 'scratch' | 'start' | 'env' | 'fromSeq'>,
  from: SnapshotSource,
  madeBy: string,
  context: PrepareContext,
): Promise<RunningVm> {
  const { home, prepared, watcher } = plan
  const notes = readNotes(prepared)
  const logSeq = Number(from.made.notes.logSeq)
  const memoryFile = from.made.notes.memoryApart === 1 ? join(from.dir, snapshotFiles.memory) : undefined
  const scratch = () => copyWritable(join(from.dir, scratchFile), join(home.dir, scratchFile), plan.launcher.run)
  const env = memoryFile === undefined ? {} : await privateMemoryEnv(deps.cacheDir, memoryFile)
  const apart = memoryFile ? { memoryFile, ...(from.alone ? {} : { codeMib: cloneCodeMib }) } : {}
  const start = { kind: 'incoming', after: 'stay-paused', ...apart } as const
  return launch(
    { ...plan, scratch, start, env, fromSeq: logSeq },
    context,
    async ({ qmp, guest, running, console, unlessEnded, cgroupCpuSeconds }) => {
      if (memoryFile !== undefined) await assertPrivate(running.process.pid, memoryFile)
      // Attach the volumes before the state is loaded, because the state contains their devices.
      const volumes = hotplug({
        qmp,
        guest,
        dir: home.dir,
        user: plan.isolation.userOf(home.vmId),
        diskLimits: plan.isolation.diskLimits,
      })
      const places = addressesOf(from.made)
      for (const { disk, file, key, of } of from.disks ?? [])
        await unlessEnded(volumes.insert(disk, file, key, places[of]))
      const state = join(from.dir, snapshotFiles.state)
      await context.time('load', () =>
        unlessEnded(loadState(qmp, join(home.dir, runDir), state, memoryFile !== undefined)),
      )
      await from.beforeRun?.()
      const moved = from.renew || from.made.notes.guest !== notes.guest || from.made.notes.mac !== notes.mac
      const status = await context.time('resume', async () => {
        if (moved) await qmp.execute('set_link', { name: 'n0', up: false })
        await qmp.execute('cont')
        await unlessEnded(guest.request(`identity ${identity(home, notes, { moved, renew: from.renew })}`, identityMs))
        if (moved) await qmp.execute('set_link', { name: 'n0', up: true })
        await unlessEnded(rescanDisks(guest, from.disks ?? []))
        return unlessEnded(guest.ready)
      })
      await enableMemoryStats(qmp, home)
      const workload = parseWorkload(status)
      return qemuVm({
        running,
        qmp,
        guest,
        console,
        watcher,
        workload,
        madeBy,
        tap: notes.tap,
        dir: home.dir,
        fromSeq: logSeq,
        memoryMib: home.spec.memoryMib,
        cgroupCpuSeconds,
        isolation: plan.isolation,
        vmId: home.vmId,
      })
    },
  )
}
