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

// A table for the connections of this program; pg's global one stays unchanged. `pg.types.getTypeParser` is overloaded
// per format.
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') => {
    if (format !== 'binary' && oid === int8) return toNumber
    if (format !== 'binary' && oid === int8Array) return (text: string) => int8List(text)
    return format === 'binary' ? pg.types.getTypeParser(oid, 'binary') : pg.types.getTypeParser(oid, 'text')
  },
}

// 1009 is the oid of text[]. Annotated as a number, because the driver's type declares only scalar types.
const textArray: number = 1009

function int8List(text: string): (number | null)[] {
  const list: (string | null)[] = pg.types.getTypeParser(textArray, 'text')(text)
  return list.map(item => (item === null ? null : toNumber(item)))
}

/** A statement that takes longer than this is a bug or lacks an index. Migrations set a timeout of their own. */
const statementTimeoutMs = 30_000
/** The server ends transactions that are idle for this long, because they hold locks and block vacuum. */
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
