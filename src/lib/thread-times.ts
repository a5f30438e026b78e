/** Measures how long this process's main thread computed, and how long it waited for a CPU. */
import { closeSync, openSync, readSync } from 'node:fs'

export interface ThreadTimes {
  /** CPU time of the thread, in ms. */
  readonly cpuMs: number
  /** Time in which the thread was runnable but had no CPU, in ms; 0 except on Linux. */
  readonly waitedMs: number
}

export interface ThreadClock {
  /** Returns the times since the start of the thread. A call takes a few microseconds. */
  read(): ThreadTimes
  close(): void
}

/** Opens `/proc/<pid>/schedstat`, whose fields are in nanoseconds (Documentation/scheduler/sched-stats.rst). */
export function openThreadClock(): ThreadClock {
  const fd = openSchedstat()
  if (fd === undefined) return { read: withoutWaiting, close: () => undefined }
  const buffer = Buffer.alloc(64)
  return {
    read() {
      const [cpu, waited] = buffer.toString('latin1', 0, readSync(fd, buffer, 0, buffer.length, 0)).split(' ')
      return { cpuMs: Number(cpu) / 1e6, waitedMs: Number(waited) / 1e6 }
    },
    close: () => closeSync(fd),
  }
}

/** Opens the file; returns undefined on other systems than Linux, and on Linux without CONFIG_SCHED_INFO. */
function openSchedstat(): number | undefined {
  try {
    // The id of the main thread is that of the process.
    return openSync(`/proc/self/task/${process.pid}/schedstat`, 'r')
  } catch {
    return undefined
  }
}

function withoutWaiting(): ThreadTimes {
  const { user, system } = process.threadCpuUsage()
  return { cpuMs: (user + system) / 1000, waitedMs: 0 }
}
