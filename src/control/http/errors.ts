/**
 * Every error code that a client can receive, and the class that carries it. Handlers throw these; `failure.ts` maps
 * anything else to a 500 with a neutral text and logs its cause chain.
 */
export const errorStatus = {
  invalid_request: 400,
  unauthenticated: 401,
  forbidden: 403,
  plan_limit_exceeded: 403,
  not_found: 404,
  method_not_allowed: 405,
  name_taken: 409,
  invalid_state: 409,
  volume_in_use: 409,
  operation_in_progress: 409,
  unsupported_by_hypervisor: 409,
  idempotency_key_reused: 409,
  precondition_failed: 412,
  payload_too_large: 413,
  unsupported_media_type: 415,
  range_not_satisfiable: 416,
  rate_limited: 429,
  internal: 500,
  no_capacity: 503,
  unavailable: 503,
} as const

export type ErrorCode = keyof typeof errorStatus

/** One invalid field of the input: its name (a JSON pointer or a parameter name) and the reason. */
export interface ErrorDetail {
  readonly field: string
  readonly message: string
}

export class ApiError extends Error {
  readonly code: ErrorCode
  readonly status: number
  readonly details: readonly ErrorDetail[] | undefined
  /** Additional members of the error body, e.g. `{limit, used, max}`. */
  readonly extra: Readonly<Record<string, unknown>> | undefined
  readonly retryAfterSeconds: number | undefined

  constructor(
    code: ErrorCode,
    message: string,
    options: ErrorOptions & {
      readonly details?: readonly ErrorDetail[]
      readonly extra?: Readonly<Record<string, unknown>>
      readonly retryAfterSeconds?: number
    } = {},
  ) {
    super(message, options)
    this.name = 'ApiError'
    this.code = code
    this.status = errorStatus[code]
    this.details = options.details
    this.extra = options.extra
    this.retryAfterSeconds = options.retryAfterSeconds
  }
}

/** The error for a missing resource and for another tenant's resource. Both responses are identical to the byte. */
export const notFound = () => new ApiError('not_found', 'Not found.')
export const unauthenticated = (message = 'Sign in, or send a valid token.') => new ApiError('unauthenticated', message)
export const forbidden = (message: string) => new ApiError('forbidden', message)
export const nameTaken = (what: string, name: string) =>
  new ApiError(
    'name_taken',
    `There is already ${/^[aeiou]/.test(what) ? 'an' : 'a'} ${what} named "${name}". Choose another name.`,
    {
      details: [{ field: 'name', message: 'already taken' }],
    },
  )
export const invalidState = (message: string) => new ApiError('invalid_state', message)
export const invalidField = (field: string, message: string) =>
  new ApiError('invalid_request', `${field}: ${message}`, { details: [{ field, message }] })
