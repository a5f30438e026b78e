/** What a deployment's row says about its canary. */

/** As stored and as in the API. */
export interface CanarySettings {
  /** Share of the requests. */
  readonly percent: number
  readonly seconds: number
  /** It fails if more of its requests fail. */
  readonly max_error_percent: number
  /** Fewer requests are no evidence. */
  readonly min_requests: number
}

export interface CanaryFacts {
  readonly canary: CanarySettings | null
  /** Null: it has not been a canary. */
  readonly canaryState: 'running' | 'passed' | 'failed' | 'cancelled' | null
  readonly canaryStartedAt: Date | null
  readonly canaryEndedAt: Date | null
  readonly canaryRequests: number
  readonly canaryFailed: number
  /** A later rollout of the app is a canary. */
  readonly hasNewerCanary: boolean
}

/** Of a deployment d. */
export const canaryColumns = `d.canary, d.canary_state AS "canaryState", d.canary_started_at AS "canaryStartedAt", d.canary_ended_at AS "canaryEndedAt",
  d.canary_requests::float8 AS "canaryRequests", d.canary_failed::float8 AS "canaryFailed",
  EXISTS (SELECT FROM deployment n WHERE n.app_id = d.app_id AND n.canary_state = 'running' AND n.rollout > d.rollout
          AND n.outcome IS NULL AND n.want = 'running') AS "hasNewerCanary"`
