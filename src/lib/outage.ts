/**
 * An error which means that PostgreSQL, the bus or a host is unreachable at the moment. The operation is retried, so
 * the error is logged as a warning: errors in the log require action (docs/operating.md, "Logs").
 */
export interface Outage {
  readonly isOutage: boolean
}

export const isOutage = (error: unknown): boolean =>
  error instanceof Error && 'isOutage' in error && error.isOutage === true

export const levelOf = (error: unknown): 'warn' | 'error' => (isOutage(error) ? 'warn' : 'error')
