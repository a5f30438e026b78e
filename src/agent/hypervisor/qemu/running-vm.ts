import { join } from 'node:path'
import type { GuestChannel } from '../../guest/channel.ts'
import { openGuest } from '../../guest/channel.ts'
import { serialPorts } from '../../guest/ports.ts'
import type { RunningVm, Watcher } from '../driver.ts'
import type { Console } from '../console.ts'
import { readNotes } from '../prepare.ts'
import { type Isolation, runDir } from '../isolation.ts'
import { runningVmOf, type RunningVmParts, type Vmm } from '../running-vm.ts'
import { readMemory, setBalloon } from './balloon.ts'
import { prepareCopy } from './copy-disk.ts'
import { hotplug, nodeOf } from './hotplug.ts'
import { hasMark } from '../transfer/marks.ts'
import { handOver, hasLeft } from './migrate.ts'
import { handOverWithVolumes } from './migrate-volumes.ts'
import { asObject, connectQmp, type Qmp } from './qmp.ts'
import { takeSnapshot } from './snapshot.ts'

const qmpSocket = 'qmp.sock'

export interface QemuParts extends Omit<RunningVmParts, 'vmm' | 'consoleTail'> {
  readonly qmp: Qmp
  readonly console: Console
  readonly vmId: string
  readonly dir: string
  readonly isolation: Isolation
  readonly memoryMib: number
  /** The `madeBy` of snapshots of this VM. */
  readonly madeBy: string
}

/** Builds the `RunningVm` of a booted or adopted QEMU. */
export function qemuVm(parts: QemuParts): RunningVm {
  return runningVmOf({ ...parts, vmm: qemuVmm(parts), consoleTail: parts.console.tail })
}

function qemuVmm({ running, qmp, guest, console, dir, memoryMib, madeBy, isolation, vmId }: QemuParts): Vmm {
  const disks = hotplug({ qmp, guest, dir, user: isolation.userOf(vmId), diskLimits: isolation.diskLimits })
  return {
    inspect: async () => (asObject(await qmp.execute('query-status')).running === true ? 'running' : 'paused'),
    pause: async () => void (await qmp.execute('stop')),
    resume: async () => void (await qmp.execute('cont')),
    readMemory: () => readMemory(qmp),
    setBalloon: targetMib => setBalloon(qmp, targetMib, memoryMib),
    snapshot: async (target, logSeq) =>
      takeSnapshot({
        qmp,
        running,
        dir,
        target,
        madeBy,
        logSeq,
        user: isolation.userOf(vmId),
        addresses: await disks.addresses(),
      }),
    attachDisk: disks.attach,
    detachDisk: disks.detach,
    growDisk: disks.grow,
    copyDisk: (volumeId, target) => prepareCopy({ qmp, dir, user: isolation.userOf(vmId), volumeId, target }),
    async handOver(uri, onProgress, signal, volumes, release) {
      const { devices } = readNotes(running.prepared)
      const source = { qmp, runDir: join(dir, runDir), user: isolation.userOf(vmId), devices }
      if (!volumes) return handOver(source, uri, onProgress, signal, release)
      const along = { ...source, vmDir: dir, memoryMib, volumes, nodeOf, addresses: await disks.addresses() }
      return handOverWithVolumes(along, uri, onProgress, signal, release)
    },
    hasLeft: async () => hasMark(dir, 'left') || hasLeft(qmp),
    closed: qmp.closed,
    close() {
      console.close()
      qmp.close()
    },
  }
}

/** Connects to the QMP socket and to the guest's ports of a running QEMU. The caller closes both. */
export async function connectVm(
  dir: string,
  fromSeq: number,
  watcher: Watcher,
): Promise<{ qmp: Qmp; guest: GuestChannel }> {
  const qmp = await connectQmp(dir, qmpSocket)
  try {
    const guest = await openGuest(serialPorts(dir), fromSeq, {
      onFrames: watcher.onFrames,
      onStarted: () => undefined,
      onExit: watcher.onExit,
      onBroken: watcher.onBroken,
    })
    return { qmp, guest }
  } catch (error) {
    qmp.close()
    throw error
  }
}
