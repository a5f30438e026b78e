/** How every connection of ours is configured, whoever opens it. */
import type { Socket } from 'node:net'
import pg from 'pg'
import { BatchingSocket } from './socket.ts'

const int8 = 20
const int8Array = 1016

/**
 * Counters and byte sizes are int8 in the schema and numbers in the program. A value above 2^53 would silently lose
 * digits, so it throws instead.
 */
function toNumber(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError(`an int8 from the database is too large: ${text}`)
  return value
}

// `pg.types.getTypeParser` is overloaded per format; each connection gets this table, the global one stays untouched.
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') => {
    if (format !== 'binary' && oid === int8) return toNumber
    if (format !== 'binary' && oid === int8Array) return (text: string) => int8List(text)
    return format === 'binary' ? pg.types.getTypeParser(oid, 'binary') : pg.types.getTypeParser(oid, 'text')
  },
}

// Annotated, since the driver's type knows scalar types only.
const textArray: number = 1009

function int8List(text: string): (number | null)[] {
  const list: (string | null)[] = pg.types.getTypeParser(textArray, 'text')(text)
  return list.map(item => (item === null ? null : toNumber(item)))
}

/** A statement longer than this is a bug or a lost index; migrations set their own. */
const statementTimeoutMs = 30_000
/** A transaction that sits idle holds locks and stops vacuum: the server ends it. */
const idleInTransactionMs = 60_000
export const connectTimeoutMs = 5_000

/** @param sockets gets the socket of each connection, as long as it is open */
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
