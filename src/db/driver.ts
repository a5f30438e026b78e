/** Configuration of every PostgreSQL connection of the program. */
import type { Socket } from 'node:net'
import pg from 'pg'
import { BatchingSocket } from './socket.ts'

const int8 = 20
const int8Array = 1016

/**
 * Converts an int8 to a number: counters and byte sizes are int8 in the schema. Throws for values above 2^53, which
 * would silently lose digits.
 */
function toNumber(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError(`an int8 from the database is too large: ${text}`)
  return value
}

// `pg.types.getTypeParser` is overloaded per format. Each connection gets this table; the global one stays unchanged.
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') => {
    if (format !== 'binary' && oid === int8) return toNumber
    if (format !== 'binary' && oid === int8Array) return (text: string) => int8List(text)
    return format === 'binary' ? pg.types.getTypeParser(oid, 'binary') : pg.types.getTypeParser(oid, 'text')
  },
}

// Annotated, because the driver's type only knows scalar types.
const textArray: number = 1009

function int8List(text: string): (number | null)[] {
  const list: (string | null)[] = pg.types.getTypeParser(textArray, 'text')(text)
  return list.map(item => (item === null ? null : toNumber(item)))
}

/** A statement that takes longer is a bug or lacks an index; migrations set their own timeout. */
const statementTimeoutMs = 30_000
/** The server ends idle transactions, because they hold locks and block vacuum. */
const idleInTransactionMs = 60_000
export const connectTimeoutMs = 5_000

/** @param sockets collects the sockets of open connections */
export function clientConfig(url: string, applicationName: string, sockets?: Set<Socket>): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: applicationName,
    types,
    stream: () => {
      const socket = new BatchingSocket()
      sockets?.add(socket)
      return socket.once('close', () => sockets?.delete(socket))
    },
    keepAlive: true,
    connectionTimeoutMillis: connectTimeoutMs,
    statement_timeout: statementTimeoutMs,
    idle_in_transaction_session_timeout: idleInTransactionMs,
  }
}
