/** What the CLI and the dashboard provide so that a plan can be carried out. */
import type { StackService } from '../compose/stack.ts'
import type { Client } from '../client/index.ts'
import type { Goal } from './ends.ts'

export interface Context {
  readonly client: Client
  /** Address of the API. */
  readonly url: string
  readonly signal: AbortSignal
  /** Runs a step, and shows it to the user meanwhile. */
  step<T>(what: string, run: () => Promise<T>): Promise<T>
  /** Converts an error from the API to one that users understand. */
  explain(cause: unknown): unknown
  /** Uploads the folder of a service that has a build. @returns the id of the source */
  upload(service: StackService): Promise<string>
  /**
   * Waits until the deployment reaches its goal: it serves, or its program has exited with code 0.
   * @throws Error with the reason if it fails
   */
  follow(app: string, jobId: string, goal: Goal): Promise<unknown>
}
