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
 * A clone that serves a page fills 24 MiB: bounded to 16, it takes 38 MiB (PSS) instead of 45. All of it is then translated
 * anew once, which makes its first page come 60 ms later: one that nobody shares with is not bounded so.
 */
const cloneCodeMib = 16

/**
 * A VM that goes on from a snapshot. Its memory maps the snapshot's file privately, so clones share what none of them
 * has changed. The link comes up only when the guest has its own addresses.
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
      // Before the state, which says how the guest has set them up.
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
