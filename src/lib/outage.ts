/**
 * Errors that mean that PostgreSQL, the bus or a host is unreachable now. The failed operation is retried, so they are
 * logged as warnings: errors in the log require action (docs/operating.md, "Logs").
 */
export interface Outage {
  readonly isOutage: boolean
}

export const isOutage = (error: unknown): boolean =>
  error instanceof Error && 'isOutage' in error && error.isOutage === true

export const levelOf = (error: unknown): 'warn' | 'error' => (isOutage(error) ? 'warn' : 'error')
