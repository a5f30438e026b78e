/**
 * Errors that say that PostgreSQL, the bus or a host cannot be reached now. What failed is tried again, so they are
 * warnings in the log: an error there is for somebody to act on (docs/operating.md, "Logs").
 */
export interface Outage {
  readonly isOutage: boolean
}

export const isOutage = (error: unknown): boolean =>
  error instanceof Error && 'isOutage' in error && error.isOutage === true

export const levelOf = (error: unknown): 'warn' | 'error' => (isOutage(error) ? 'warn' : 'error')
