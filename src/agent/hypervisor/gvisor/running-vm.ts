import { join } from 'node:path'
import { copyFile } from 'node:fs/promises'
import { countOf, parseWords, TwoCounts } from '../../guest/answers.ts'
import type { GuestChannel } from '../../guest/channel.ts'
import type { RunningVm, Running, SnapshotMade, VmHome, Watcher, WorkloadState } from '../driver.ts'
import type { Isolation } from '../isolation.ts'
import { readNotes } from '../prepare.ts'
import { answerMs, runningVmOf } from '../running-vm.ts'
import { configFile, snapshotNotes } from '../snapshot-files.ts'
import { hasMark } from '../transfer/marks.ts'
import type { SandboxConsole } from './console.ts'
import { IdleReading } from './idle-reading.ts'
import { handOver } from './migrate.ts'
import type { Runsc } from './runsc.ts'
import { shareFiles } from './spec.ts'
import { shareDir } from './start.ts'
import { normalSlackNs, setTimerSlack, slackMeter } from './timer-slack.ts'
import { flushVolumes, volumesOf } from './volumes.ts'

/** Name of the guest's init in a snapshot's directory, which also has the configuration and the files of runsc. */
export const snapshotInit = 'init'

const idleReadingMs = 10_000

export interface SandboxVm {
  readonly runsc: Runsc
  readonly id: string
  readonly home: VmHome
  readonly running: Running
  readonly guest: GuestChannel
  readonly console: SandboxConsole
  readonly watcher: Watcher
  readonly isolation: Isolation
  readonly madeBy: string
  readonly fromSeq: number
}

/** Builds the `RunningVm` of a started or adopted sandbox. */
export function sandboxVm(vm: SandboxVm, workload: WorkloadState): RunningVm {
  const { runsc, id, home, running, guest, console, watcher, isolation, fromSeq } = vm
  const memory = new IdleReading(async () => {
    const [total, available] = parseWords(TwoCounts, await guest.request('memory', answerMs))
    return { ramUsedBytes: countOf(total - available) }
  }, idleReadingMs)
  return withRestWhenIdle(
    running.process.pid,
    memory,
    runningVmOf({
      running,
      guest,
      workload,
      watcher,
      fromSeq,
      tap: readNotes(running.prepared).tap,
      consoleTail: console.tail,
      cgroupCpuSeconds: () => isolation.cgroups?.cpuSeconds(home.vmId),
      vmm: {
        inspect: async () => ((await runsc.inspect(id)) === 'paused' ? 'paused' : 'running'),
        pause: () => runsc.pause(id),
        resume: async () => {
          if (hasMark(home.dir, 'left')) throw new Error('the VM runs on another host')
          if ((await runsc.inspect(id)) === 'paused') await runsc.resume(id)
        },
        readMemory: () => memory.read(),
        snapshot: (dir, logSeq) => takeCheckpoint(vm, dir, logSeq),
        handOver: (uri, onProgress, signal, _volumes, release) => handOver(vm, uri, onProgress, signal, release),
        ...volumesOf(vm),
        hasLeft: async () => hasMark(home.dir, 'left'),
        closed: guest.closed,
        close: () => console.close(),
      },
    }),
  )
}

/** Makes `stats`, which is called every second, adjust the timer slack, so that an idle sandbox wakes up less often. */
function withRestWhenIdle(pid: number, memory: IdleReading<unknown>, runningVm: RunningVm): RunningVm {
  const meter = slackMeter()
  // The sandbox's current timer slack. Unknown at first, because an earlier agent may have changed it.
  let slackNs: number | undefined
  const rest = (wanted: number) => {
    if (wanted !== slackNs) setTimerSlack(pid, wanted)
    slackNs = wanted
    memory.isIdle = wanted > normalSlackNs
  }
  return {
    ...runningVm,
    async stats() {
      try {
        const use = await runningVm.stats()
        rest(meter(use, performance.now()))
        return use
      } catch (error) {
        // A guest that does not answer may be overloaded, so it gets the normal timer slack.
        rest(normalSlackNs)
        throw error
      }
    },
  }
}

/** Takes a checkpoint. The sandbox's programs are paused while it writes memory and the changed files of its root. */
async function takeCheckpoint(
  { runsc, id, home, running, madeBy }: SandboxVm,
  target: string,
  logSeq: number,
): Promise<SnapshotMade> {
  const wasPaused = (await runsc.inspect(id)) === 'paused'
  const startedMs = performance.now()
  await runsc.checkpoint(id, target)
  await flushVolumes(home.dir)
  const pauseMs = wasPaused ? 0 : Math.round(performance.now() - startedMs)
  await copyFile(join(home.dir, configFile), join(target, configFile))
  await copyFile(join(shareDir(home.dir), shareFiles.init), join(target, snapshotInit))
  const { imageDigest, notes } = running.prepared
  return { madeBy, imageDigest, pauseMs, notes: snapshotNotes(notes, logSeq) }
}
