/** One invalid field of the request, and the reason. */
export interface FieldFault {
  readonly field: string
  readonly message: string
}

/** Thrown for a response other than 2xx. Its members are those of the contract's Error schema. */
export class ApiFailure extends Error {
  readonly status: number
  /** Machine-readable code, e.g. `name_taken`; undefined if the response came from a proxy instead of the API. */
  readonly code: string | undefined
  readonly details: readonly FieldFault[]
  readonly requestId: string | undefined
  readonly retryAfterMs: number | undefined
  /** The whole body of the response: with some codes it has additional members, e.g. `limit`, `used` and `max`. */
  readonly body: Readonly<Record<string, unknown>>

  constructor(status: number, body: Readonly<Record<string, unknown>>, retryAfterMs?: number) {
    super(typeof body.error === 'string' ? body.error : `The server answered ${status}.`)
    this.name = 'ApiFailure'
    this.status = status
    this.code = typeof body.code === 'string' ? body.code : undefined
    this.details = Array.isArray(body.details) ? body.details.filter(isFieldFault) : []
    this.requestId = typeof body.request_id === 'string' ? body.request_id : undefined
    this.retryAfterMs = retryAfterMs
    this.body = body
  }
}

const isFieldFault = (value: unknown): value is FieldFault =>
  typeof value === 'object' &&
  value !== null &&
  typeof Reflect.get(value, 'field') === 'string' &&
  typeof Reflect.get(value, 'message') === 'string'

/** Parses an error response; a text that is not JSON becomes the message. */
export async function failureOf(response: Response): Promise<ApiFailure> {
  const text = await response.text().catch(() => '')
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  return new ApiFailure(response.status, bodyOf(text), Number.isFinite(seconds) ? seconds * 1000 : undefined)
}

function bodyOf(text: string): Readonly<Record<string, unknown>> {
  try {
    const parsed: unknown = JSON.parse(text)
    if (typeof parsed === 'object' && parsed !== null) return Object.fromEntries(Object.entries(parsed))
  } catch {
    // A body that is not JSON is from a proxy, so its text becomes the message.
  }
  return text === '' ? {} : { error: text.slice(0, 500) }
}
