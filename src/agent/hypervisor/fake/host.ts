import { setTimeout as sleep } from 'node:timers/promises'
import type { Frame } from '../../guest/frames.ts'
import type { GuestSessions } from '../../guest/sessions.ts'

/** Durations of the simulated steps, in ms. */
export interface FakeTiming {
  readonly imageMs: number
  readonly bootMs: number
  /** Time from the start of the workload to its first passed health check. */
  readonly healthyMs: number
  readonly stopMs: number
  /** Interval at which a VM writes a log line; 0: it writes only one line. */
  readonly logEveryMs: number
  /** How long a migration copies data before the guest is paused; default: 0. */
  readonly copyMs?: number
}

export type FakeVerb =
  | 'prepare'
  | 'boot'
  | 'restore'
  | 'growDisk'
  | 'stop'
  | 'pause'
  | 'resume'
  | 'startWorkload'
  | 'release'
  | 'stats'
  | 'snapshot'
  | 'handOver'

/** A simulated VM, as tests see it. */
export interface FakeVm {
  readonly vmId: string
  readonly hostname: string
  readonly deploymentId: string
  readonly address: string
  /** Random value that stands for the guest's memory (`GuestState`). */
  memory: string
  readonly identity: string
  /** Mount point of each volume. */
  readonly disks: Map<string, string>
  healthy: boolean
  paused: boolean
  /** The used share of its vCPUs (0 to 1), and the memory in use. */
  load: { cpu: number; ramBytes: number }
  rxBytes: number
  txBytes: number
  say(stream: Frame['stream'], line: string): void
  exit(code: number): void
  die(detail: string): void
  /** Makes the guest violate the protocol of its ports. */
  babble(detail: string): void
}

/**
 * The simulated host of a fake driver. A test creates it to control durations, faults and workloads. Otherwise the
 * agent creates one from its configuration.
 */
export interface FakeHost {
  timing: FakeTiming
  readonly vms: Map<string, FakeVm>
  /** Returns the sessions of a VM. Default: simulated sessions. */
  sessions?: (vmId: string) => GuestSessions
  /** Makes the next `times` calls of this driver method fail, for this VM or for all VMs (`*`). */
  fail(verb: FakeVerb, vmId: string, message: string, times?: number): void
  /** Called by the driver in each method: waits `ms`, then throws the error of `fail` if it applies to the call. */
  pass(verb: FakeVerb, vmId: string, ms: number, signal?: AbortSignal): Promise<void>
}

export function createFakeHost(timing: FakeTiming): FakeHost {
  const faults: Array<{ verb: FakeVerb; vmId: string; message: string; left: number }> = []
  return {
    timing,
    vms: new Map(),
    fail(verb, vmId, message, times = 1) {
      faults.push({ verb, vmId, message, left: times })
    },
    async pass(verb, vmId, ms, signal) {
      if (ms > 0) await sleep(ms, undefined, signal ? { signal } : undefined)
      signal?.throwIfAborted()
      const fault = faults.find(one => one.verb === verb && one.left > 0 && (one.vmId === '*' || one.vmId === vmId))
      if (!fault) return
      fault.left -= 1
      throw new Error(fault.message)
    },
  }
}
