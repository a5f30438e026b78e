/** Calls the step and reports how long it took; `VmStep` of the contract. */
export type TimeStep = <T>(name: string, step: () => Promise<T>) => Promise<T>

export interface PrepareContext {
  readonly time: TimeStep
  /** A line for the VM's `system` log. */
  readonly say: (line: string) => void
  readonly signal: AbortSignal
}
