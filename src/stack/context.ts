/** What the CLI and the dashboard provide to the code that carries out a plan. */
import type { StackService } from '../compose/stack.ts'
import type { Client } from '../client/index.ts'
import type { Goal } from './ends.ts'

export interface Context {
  readonly client: Client
  /** Base URL of the API. */
  readonly url: string
  readonly signal: AbortSignal
  /** Runs a step, and shows it to the user while it runs. */
  step<T>(what: string, run: () => Promise<T>): Promise<T>
  /** Converts an error of the API to one that users understand. */
  explain(cause: unknown): unknown
  /** Uploads the folder of a service that has a build. @returns the id of the source */
  upload(service: StackService): Promise<string>
  /**
   * Waits until the deployment reaches its goal: to serve, or to exit with code 0.
   * @throws Error with the reason if it fails
   */
  follow(app: string, jobId: string, goal: Goal): Promise<unknown>
}
