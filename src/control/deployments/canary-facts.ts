/** The canary of a deployment, as stored in its row. */

/** Settings of a canary, named as in the database and in the API. */
export interface CanarySettings {
  /** Percentage of the requests that the canary gets. */
  readonly percent: number
  readonly seconds: number
  /** Percentage of failed requests above which the canary fails. */
  readonly max_error_percent: number
  /** Number of requests below which the canary's failures are not evaluated. */
  readonly min_requests: number
}

export interface CanaryFacts {
  readonly canary: CanarySettings | null
  /** State of the canary; null: the deployment has not been a canary. */
  readonly canaryState: 'running' | 'passed' | 'failed' | 'cancelled' | null
  readonly canaryStartedAt: Date | null
  readonly canaryEndedAt: Date | null
  readonly canaryRequests: number
  readonly canaryFailed: number
  /** True if a later rollout of the app is a canary. */
  readonly hasNewerCanary: boolean
}

/** SQL columns of `CanaryFacts` for a deployment `d`. */
export const canaryColumns = `d.canary, d.canary_state AS "canaryState", d.canary_started_at AS "canaryStartedAt", d.canary_ended_at AS "canaryEndedAt",
  d.canary_requests::float8 AS "canaryRequests", d.canary_failed::float8 AS "canaryFailed",
  EXISTS (SELECT FROM deployment n WHERE n.app_id = d.app_id AND n.canary_state = 'running' AND n.rollout > d.rollout
          AND n.outcome IS NULL AND n.want = 'running') AS "hasNewerCanary"`
