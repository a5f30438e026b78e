import type { Capabilities, HypervisorName, VmSpec } from '../../contract/agent.ts'
import type { Frame } from '../guest/frames.ts'
import type { ProcessIdentity } from '../../lib/process-identity.ts'

/** What a driver gets to know about one VM: its wish and its directory. */
export interface VmHome {
  readonly vmId: string
  /** The VM's own directory; only its driver and the agent's state write here. */
  readonly dir: string
  readonly spec: VmSpec
}

export interface Endpoint {
  readonly host: string
  readonly port: number
}

/** What has been made for the next boot. Plain data: it is stored, and given back to `boot` and `adopt`. */
export interface Prepared {
  readonly imageDigest: string
  readonly endpoint: Endpoint
  /** The driver's own notes, such as the tap's name. JSON. */
  readonly notes: Readonly<Record<string, string | number | null>>
}

/** What must be stored to find a running VM again after a restart of the agent. */
export interface Running {
  readonly prepared: Prepared
  readonly process: ProcessIdentity
  /** Counts the boots of this VM; log lines carry it, so that the guest's numbering is told apart. */
  readonly boot: number
}

/** Receives what happens inside; no call after `onGone`. */
export interface Watcher {
  readonly onFrames: (frames: readonly Frame[]) => void
  /** The workload ended; the VM lives on until told otherwise. */
  readonly onExit: (code: number) => void
  /** The VM has gone. `detail` has the console's last lines, if any. */
  readonly onGone: (detail: string) => void
}

export type WorkloadState = { readonly state: 'running' } | { readonly state: 'exited'; readonly code: number }

/** Raw counters; the agent makes rates of them. */
export interface MachineStats {
  readonly cpuSeconds: number
  readonly ramUsedBytes: number
  /** From the guest's side. */
  readonly rxBytes: number
  readonly txBytes: number
}

/** One running VM. */
export interface Machine {
  readonly running: Running
  /** The state of the workload when the machine was booted or adopted. */
  readonly workload: WorkloadState
  /** Whether the machine is paused, as the hypervisor says. */
  inspect(): Promise<'running' | 'paused'>
  startWorkload(): Promise<void>
  /** A health check of the driver's own, where asking over the network makes no sense. */
  readonly probe?: (signal: AbortSignal) => Promise<boolean>
  /** True when something in the guest accepts TCP connections on the port. */
  listening(port: number): Promise<boolean>
  /** Asks the guest to end, ends it by force after `graceMs`. Resolves when no process is left. */
  stop(graceMs: number): Promise<void>
  pause(): Promise<void>
  resume(): Promise<void>
  stats(): Promise<MachineStats>
  /** Log frames up to `seq` are safe. */
  ack(seq: number): void
  /** Lets go of the VM without touching it: the agent ends, the VM stays. */
  detach(): void
}

/** Calls the step and reports how long it took; `VmStep` of the contract. */
export type TimeStep = <T>(name: string, step: () => Promise<T>) => Promise<T>

export interface PrepareContext {
  readonly time: TimeStep
  /** A line for the VM's `system` log. */
  readonly say: (line: string) => void
  readonly signal: AbortSignal
}

/**
 * One hypervisor. Later verbs (snapshot, restore, attachDisk, detachDisk, balloon, migrate) are declared in
 * `capabilities` and become optional methods of `Machine`; what is false there is answered `unsupported_by_hypervisor`.
 */
export interface Driver {
  readonly name: HypervisorName
  readonly capabilities: Capabilities
  /** How guests are connected, for the host's beat. */
  readonly network: string
  /** Whether it works here, and how (`kvm`, `tcg`) or why not. */
  probe(signal: AbortSignal): Promise<{ readonly available: boolean; readonly detail: string }>
  /** Image and network, before there is a process. Idempotent: called again after a failure or before a new boot. */
  prepare(home: VmHome, context: PrepareContext): Promise<Prepared>
  /** Resolves when the workload was started. On failure or abort nothing is left running. */
  boot(home: VmHome, prepared: Prepared, boot: number, watcher: Watcher, context: PrepareContext): Promise<Machine>
  /** Finds a VM that outlived the agent. `fromSeq`: the last log frame that is safe. Undefined: it has gone. */
  adopt(home: VmHome, running: Running, fromSeq: number, watcher: Watcher): Promise<Machine | undefined>
  /** Gives back all that `prepare` took. Idempotent, also without a successful `prepare`. */
  release(vmId: string, dir: string): Promise<void>
  /** At start, before any VM: removes what belongs to none of `keep`. */
  reclaim(keep: ReadonlySet<string>): Promise<void>
  close(): Promise<void>
}
