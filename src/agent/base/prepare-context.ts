/** Runs a step of a VM's start and reports its duration; `name` is a `VmStep` of the contract. */
export type TimeStep = <T>(name: string, step: () => Promise<T>) => Promise<T>

export interface PrepareContext {
  readonly time: TimeStep
  /** Writes a line of the host to the VM's log (stream `system`). */
  readonly say: (line: string) => void
  readonly signal: AbortSignal
}
