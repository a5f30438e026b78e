/**
 * PostgreSQL errors in two classes: the server refused the statement (`StatementError`, with its SQLSTATE), or the
 * server was unavailable (`DbUnavailable`, for which an API responds with 503).
 */
import pg from 'pg'
import type { Outage } from '../lib/outage.ts'

/**
 * Why the server was unavailable. `commit_unknown`: the connection broke during COMMIT, so the transaction may or may
 * not have been committed.
 */
export type UnavailableReason = 'connect' | 'connection_lost' | 'pool_exhausted' | 'commit_unknown' | 'closed'

export class DbUnavailable extends Error implements Outage {
  readonly isOutage = true
  readonly reason: UnavailableReason
  constructor(reason: UnavailableReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'DbUnavailable'
    this.reason = reason
  }
}

/**
 * PostgreSQL refused a statement. `cause` is the driver's error, whose `detail` may contain row values: never log it.
 */
export class StatementError extends Error {
  readonly statement: string
  /** SQLSTATE, five characters (PostgreSQL manual, appendix A). */
  readonly sqlState: string
  readonly constraint: string | undefined
  constructor(statement: string, error: pg.DatabaseError) {
    super(`statement ${statement} failed: ${error.message}`, { cause: error })
    this.name = 'StatementError'
    this.statement = statement
    this.sqlState = error.code ?? 'XX000'
    this.constraint = error.constraint
  }
}

function hasState(error: unknown, state: string, constraint: string | undefined): boolean {
  return (
    error instanceof StatementError &&
    error.sqlState === state &&
    (constraint === undefined || error.constraint === constraint)
  )
}

export const uniqueViolation = (error: unknown, constraint?: string) => hasState(error, '23505', constraint)
export const foreignKeyViolation = (error: unknown, constraint?: string) => hasState(error, '23503', constraint)
export const checkViolation = (error: unknown, constraint?: string) => hasState(error, '23514', constraint)
/** Returns true for a serialization failure or deadlock, after which a retry of the transaction may succeed. */
export const retryable = (error: unknown) => hasState(error, '40001', undefined) || hasState(error, '40P01', undefined)

// SQLSTATEs of class 53 (insufficient resources) except 53300 too_many_connections, and 58030 io_error.
const noRoom = /^(53[12]00|53000|58030)$/

/**
 * Returns true if the server has no disk space or memory left, or cannot write. Nothing was changed; an operator has to
 * free space or repair the server.
 */
export const outOfRoom = (error: unknown) => error instanceof StatementError && noRoom.test(error.sqlState)

// SQLSTATEs that mean that the server is unavailable: it stops, restarts or recovers from a crash (57P01
// admin_shutdown, 57P02 crash_shutdown, 57P03 cannot_connect_now, 57P05 idle_session_timeout), the connection failed
// (class 08), or there are too many connections (53300).
const sessionEnded = /^(57P0[1235]|08...|53300)$/

/**
 * Converts an error of the driver to one of the two classes above. Returns other errors (bugs in the program)
 * unchanged.
 */
export function fromDriver(error: unknown, statement: string): unknown {
  if (error instanceof StatementError || error instanceof DbUnavailable) return error
  if (error instanceof pg.DatabaseError) {
    if (sessionEnded.test(error.code ?? '')) {
      return new DbUnavailable('connection_lost', `the database ended the session: ${error.message}`, { cause: error })
    }
    return new StatementError(statement, error)
  }
  if (isConnectionFault(error)) {
    return new DbUnavailable('connection_lost', 'the connection to the database was lost', { cause: error })
  }
  return error
}

// The driver has no class or code for these errors; the messages are those of pg 8 (lib/client.js, pg-pool/index.js).
const faultMessage =
  /connection terminated|connection error and is not queryable|client was closed|timeout expired|read timeout/i
const faultCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ENOENT',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'EACCES',
])

function isConnectionFault(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if ('code' in error && typeof error.code === 'string' && faultCodes.has(error.code)) return true
  return faultMessage.test(error.message)
}
