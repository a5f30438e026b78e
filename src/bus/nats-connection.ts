/** Connects to NATS, and maps its errors to BusErrors. */
import { readFile } from 'node:fs/promises'
import { credsAuthenticator, errors, type NodeConnectionOptions } from '@nats-io/transport-node'
import type { Logger } from 'pino'
import { BusError } from './bus.ts'
import { inboxPrefixOf } from './permissions.ts'

export interface NatsBusOptions {
  /**
   * Addresses of the NATS servers, such as `nats://host:port`, or `nats://user:password@host:port` with user and
   * password.
   */
  readonly servers: string | readonly string[]
  /** Name of this connection in the server's list of connections. */
  readonly name: string
  readonly log: Logger
  readonly user?: string
  readonly password?: string
  readonly token?: string
  /** Path of a NATS credentials file (`.creds`, with JWT and nkey). */
  readonly credsFile?: string
  readonly tls?: { readonly caFile?: string; readonly certFile?: string; readonly keyFile?: string }
  /**
   * Subject prefix for responses to this connection's requests. Default: the prefix that `permissions.ts` allows the
   * user, else `_INBOX`.
   */
  readonly inboxPrefix?: string
  /**
   * Whether to create and update the streams; default: true. Only the control plane has the permission; hosts and
   * gateways do not.
   */
  readonly manageStreams?: boolean
}

/** Timeout for the first connect and for a stream's acknowledgment of a publish. */
export const answerTimeoutMs = 5_000

export async function connectionOptions(options: NatsBusOptions): Promise<NodeConnectionOptions> {
  const { token, credsFile, tls } = options
  const servers = [options.servers].flat().map(server => new URL(server.includes('://') ? server : `nats://${server}`))
  const user = options.user ?? decodeURIComponent(servers[0]?.username ?? '')
  const password = options.password ?? decodeURIComponent(servers[0]?.password ?? '')
  const inboxPrefix = options.inboxPrefix ?? (user === '' ? undefined : inboxPrefixOf(user))
  return {
    servers: servers.map(({ host }) => host),
    name: options.name,
    timeout: answerTimeoutMs,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    reconnectJitter: 250,
    pingInterval: 10_000,
    ignoreAuthErrorAbort: true,
    ...(user === '' ? {} : { user, pass: password }),
    ...(token === undefined ? {} : { token }),
    ...(credsFile === undefined ? {} : { authenticator: credsAuthenticator(await readFile(credsFile)) }),
    ...(tls === undefined ? {} : { tls }),
    ...(inboxPrefix === undefined ? {} : { inboxPrefix }),
  }
}

export function withoutSecrets(servers: string | readonly string[]): string {
  return [servers]
    .flat()
    .map(server => server.replace(/\/\/[^@/]*@/, '//'))
    .join(', ')
}

/** Converts an error of the client library to the corresponding BusError; returns other errors unchanged. */
export function busError(error: unknown, subject: string): unknown {
  if (error instanceof BusError) return error
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  const noResponder =
    error instanceof errors.NoRespondersError ||
    cause instanceof errors.NoRespondersError ||
    (error instanceof errors.RequestError && error.isNoResponders())
  if (noResponder) return new BusError('no_responder', `no program serves ${subject}`, { cause: error })
  if (error instanceof errors.PermissionViolationError || cause instanceof errors.PermissionViolationError) {
    return new BusError('no_responder', `this connection is not permitted to use ${subject}`, { cause: error })
  }
  if (error instanceof errors.TimeoutError || cause instanceof errors.TimeoutError) {
    return new BusError('timeout', `no answer from ${subject} in time`, { cause: error })
  }
  if (error instanceof errors.ClosedConnectionError || error instanceof errors.DrainingConnectionError) {
    return new BusError('closed', 'the bus is closed', { cause: error })
  }
  // Requests that are pending when the connection breaks are rejected with this error, which has no class of its own.
  if (error instanceof errors.RequestError && error.message === 'connection disconnected') {
    return new BusError('closed', 'the connection to NATS was lost', { cause: error })
  }
  return error
}

/** Returns the error for a failed creation of the streams. */
export function streamsError(error: unknown, servers: string): BusError {
  const message = error instanceof Error ? error.message : String(error)
  const lost = new Set(['timeout', 'connection disconnected'])
  const why = lost.has(message)
    ? 'the connection was lost'
    : `${message} (it needs JetStream: nats-server -js, and the permissions that mote host add prints)`
  return new BusError('closed', `cannot set up the streams of NATS at ${servers}: ${why}`, { cause: error })
}
