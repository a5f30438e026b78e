/** The canary of a deployment, as stored in its row. */

/** Settings of a canary, in the form of both the database and the API. */
export interface CanarySettings {
  /** Percentage of the requests that the canary gets. */
  readonly percent: number
  readonly seconds: number
  /** The canary fails if a larger percentage of its requests fails. */
  readonly max_error_percent: number
  /** With fewer requests, failures are not evaluated. */
  readonly min_requests: number
}

export interface CanaryFacts {
  readonly canary: CanarySettings | null
  /** Null: the deployment has not been a canary. */
  readonly canaryState: 'running' | 'passed' | 'failed' | 'cancelled' | null
  readonly canaryStartedAt: Date | null
  readonly canaryEndedAt: Date | null
  readonly canaryRequests: number
  readonly canaryFailed: number
  /** A later rollout of the app is a canary. */
  readonly hasNewerCanary: boolean
}

/** Columns of `CanaryFacts` for a deployment `d`. */
export const canaryColumns = `d.canary, d.canary_state AS "canaryState", d.canary_started_at AS "canaryStartedAt", d.canary_ended_at AS "canaryEndedAt",
  d.canary_requests::float8 AS "canaryRequests", d.canary_failed::float8 AS "canaryFailed",
  EXISTS (SELECT FROM deployment n WHERE n.app_id = d.app_id AND n.canary_state = 'running' AND n.rollout > d.rollout
          AND n.outcome IS NULL AND n.want = 'running') AS "hasNewerCanary"`
