/** Configuration of every PostgreSQL connection of the program. */
import type { Socket } from 'node:net'
import pg from 'pg'
import { BatchingSocket } from './socket.ts'

const int8 = 20
const int8Array = 1016

/**
 * Converts an int8 to a number. The schema uses int8 for counters and byte sizes. Throws for values above 2^53, which
 * would silently lose digits.
 */
function toNumber(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError(`an int8 from the database is too large: ${text}`)
  return value
}

// A table of type parsers for the connections of this program; the global table of the package pg stays unchanged.
// `pg.types.getTypeParser` is overloaded per format.
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') => {
    if (format !== 'binary' && oid === int8) return toNumber
    if (format !== 'binary' && oid === int8Array) return (text: string) => int8List(text)
    return format === 'binary' ? pg.types.getTypeParser(oid, 'binary') : pg.types.getTypeParser(oid, 'text')
  },
}

// The oid of text[]. The variable has the type number, because the driver's types declare only oids of scalar types.
const textArray: number = 1009

function int8List(text: string): (number | null)[] {
  const list: (string | null)[] = pg.types.getTypeParser(textArray, 'text')(text)
  return list.map(item => (item === null ? null : toNumber(item)))
}

/**
 * Time limit of a statement. A statement that takes longer has a bug or lacks an index. Migrations set a time limit of
 * their own.
 */
const statementTimeoutMs = 30_000
/**
 * The server closes sessions whose transaction is idle for this long, because idle transactions hold locks and block
 * vacuum.
 */
const idleInTransactionMs = 60_000
export const connectTimeoutMs = 5_000

/** Returns the configuration of a connection. @param sockets receives the sockets of open connections */
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
