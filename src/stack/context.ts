/** What carries out a plan: the CLI or the dashboard. */
import type { StackService } from '../compose/stack.ts'
import type { Client } from '../client/index.ts'
import type { Goal } from './ends.ts'

export interface Context {
  readonly client: Client
  /** Of the API. */
  readonly url: string
  readonly signal: AbortSignal
  /** Shows a step while it runs. */
  step<T>(what: string, run: () => Promise<T>): Promise<T>
  /** Converts an error of the API to one for people. */
  explain(cause: unknown): unknown
  /** Uploads the folder of a service that is built. @returns its source */
  upload(service: StackService): Promise<string>
  /**
   * Waits until the deployment serves, or has ended with code 0.
   * @throws Error with the reason if it fails
   */
  follow(app: string, jobId: string, goal: Goal): Promise<unknown>
}
