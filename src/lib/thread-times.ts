/** How long the main thread of this process computed, and how long it waited for a processor. */
import { closeSync, openSync, readSync } from 'node:fs'

export interface ThreadTimes {
  /** CPU time, ms. */
  readonly cpuMs: number
  /** Time in which the thread was ready to run but had no processor, ms; 0 except on Linux. */
  readonly waitedMs: number
}

export interface ThreadClock {
  /** Times since the start of the thread. Takes a few microseconds. */
  read(): ThreadTimes
  close(): void
}

/** Format: Documentation/scheduler/sched-stats.rst, `/proc/<pid>/schedstat`. The fields are in nanoseconds. */
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

/** Returns undefined on other systems, and on Linux without CONFIG_SCHED_INFO. */
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
