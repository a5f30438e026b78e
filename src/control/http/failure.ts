/** Turns every thrown value into an error response. */
import type { FastifyBaseLogger } from 'fastify'
import { BusError } from '../../bus/bus.ts'
import { DbUnavailable, outOfRoom, retryable } from '../../db/errors.ts'
import { ApiError, type ErrorCode } from './errors.ts'

export interface Failure {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Readonly<Record<string, unknown>>
}

/** Our error code and text for each error that Fastify throws itself. */
const fastifyErrors: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'Send the body as application/json.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['invalid_request', 'The length of the body differs from Content-Length.'],
  FST_ERR_BAD_URL: ['invalid_request', 'The path has an invalid percent escape.'],
  FST_ERR_MAX_PARAM_LENGTH: ['invalid_request', 'A part of the path is too long.'],
  ECONNRESET: ['invalid_request', 'The connection was closed before the whole request had arrived.'],
}

/**
 * Returns whether a body exceeded its limit. Not in `fastifyErrors`, because the message contains the operation's limit
 * (body-limit.ts).
 */
export const isBodyTooLarge = (thrown: unknown) => codeOf(thrown) === 'FST_ERR_CTP_BODY_TOO_LARGE'

/**
 * Returns whether this is any other error of Fastify with a 4xx status. Such errors are not logged, so that clients
 * cannot fill the error log.
 */
const isClientFault = (thrown: unknown) =>
  codeOf(thrown)?.startsWith('FST_') === true &&
  thrown instanceof Error &&
  'statusCode' in thrown &&
  typeof thrown.statusCode === 'number' &&
  thrown.statusCode >= 400 &&
  thrown.statusCode < 500

/** Returns whether this is a temporary failure of PostgreSQL or the bus, answered with 503 and `Retry-After`. */
const isOutage = (thrown: unknown) => thrown instanceof DbUnavailable || thrown instanceof BusError || retryable(thrown)

/**
 * Maps any thrown value to the ApiError for the client. An unknown value is a bug and becomes a 500 with a neutral
 * text.
 */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown
  const code = codeOf(thrown)
  const known = code === undefined ? undefined : fastifyErrors[code]
  if (known) return new ApiError(known[0], known[1], { cause: thrown })
  if (isClientFault(thrown)) return new ApiError('invalid_request', 'The request is not valid.', { cause: thrown })
  if (isOutage(thrown))
    return new ApiError('unavailable', 'Not available right now. Try again in a moment.', { cause: thrown })
  if (outOfRoom(thrown))
    return new ApiError(
      'unavailable',
      'The database of this installation has no room left, so nothing was changed. Try again when its operator has freed disk space.',
      { cause: thrown },
    )
  return new ApiError('internal', 'Something went wrong on our side. The request id helps us find out what.', {
    cause: thrown,
  })
}

export function failureOf(error: ApiError, requestId: string): Failure {
  const retry = error.retryAfterSeconds ?? (error.status === 503 ? 2 : undefined)
  return {
    status: error.status,
    headers: {
      ...(retry === undefined ? {} : { 'retry-after': String(retry) }),
      ...(error.status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
    },
    body: {
      error: error.message,
      status: error.status,
      code: error.code,
      request_id: requestId,
      ...(error.details ? { details: error.details } : {}),
      ...error.extra,
    },
  }
}

/** Logs bugs with their whole cause chain and outages as a warning. Client errors are not logged. */
export function logFailure(log: FastifyBaseLogger, error: ApiError): void {
  if (error.code === 'internal' || outOfRoom(error.cause))
    log.error({ causes: causeChain(error.cause) }, 'request failed')
  else if (error.status === 503) log.warn({ causes: causeChain(error.cause) }, 'request not served')
}

/** Logs names, messages and stacks only: other members of an error (a driver's `detail`) can contain customer data. */
function causeChain(thrown: unknown): readonly Record<string, unknown>[] {
  const chain: Record<string, unknown>[] = []
  for (let next = thrown; next instanceof Error && chain.length < 8; next = next.cause)
    chain.push({ name: next.name, message: next.message, stack: next.stack })
  return chain
}

function codeOf(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !('code' in thrown)) return undefined
  return typeof thrown.code === 'string' ? thrown.code : undefined
}
