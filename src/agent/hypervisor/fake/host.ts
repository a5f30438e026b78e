import { setTimeout as sleep } from 'node:timers/promises'
import type { Frame } from '../../guest/frames.ts'

/** How long the simulated steps take, ms. */
export interface FakeTiming {
  readonly imageMs: number
  readonly bootMs: number
  /** From the workload's start to its first passed health check. */
  readonly healthyMs: number
  readonly stopMs: number
  /** Between two generated log lines of a VM; 0: none but the first. */
  readonly logEveryMs: number
  /** How long a migration copies before the guest stops; absent: not at all. */
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

/** A simulated VM, as the handle that tests hold sees it. */
export interface FakeVm {
  readonly vmId: string
  readonly hostname: string
  readonly deploymentId: string
  readonly address: string
  /** What the program remembers, and who it is to the network. */
  memory: string
  readonly identity: string
  /** Mount point of each volume. */
  readonly disks: Map<string, string>
  healthy: boolean
  paused: boolean
  /** Share of its vCPUs, 0..1, and memory in use. */
  load: { cpu: number; ramBytes: number }
  rxBytes: number
  txBytes: number
  say(stream: Frame['stream'], line: string): void
  exit(code: number): void
  die(detail: string): void
  /** Its guest breaks the protocol of its ports. */
  babble(detail: string): void
}

/**
 * The simulated machine under a fake driver. Whoever starts the agent may make it and turn it: times, faults, what the
 * workloads do. Without one, the agent makes its own from its configuration.
 */
export interface FakeHost {
  timing: FakeTiming
  readonly vms: Map<string, FakeVm>
  /** The next `times` calls of that verb fail, for this VM or for all (`*`). */
  fail(verb: FakeVerb, vmId: string, message: string, times?: number): void
  /** Waits `ms`, then throws what `fail` arranged. For the driver. */
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
