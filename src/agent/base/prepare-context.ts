/** Calls the step and reports its duration (`VmStep` in the contract). */
export type TimeStep = <T>(name: string, step: () => Promise<T>) => Promise<T>

export interface PrepareContext {
  readonly time: TimeStep
  /** Writes a line to the VM's log, as the stream `system`. */
  readonly say: (line: string) => void
  readonly signal: AbortSignal
}
