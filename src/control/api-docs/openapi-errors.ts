/** Documents the errors of operations: one response per status, with its error codes. */
import { type ErrorCode, errorStatus } from '../http/errors.ts'
import { headersOf } from './openapi-headers.ts'
import { type Json, reference } from './openapi-components.ts'

const descriptions = {
  400: 'The request is not valid. `details` lists each invalid field with the reason.',
  401: 'The credential is missing, invalid or expired.',
  403: 'The permissions of the credential, the role in the project, or the plan do not allow the request.',
  404: 'The resource does not exist, or the caller has no access to it.',
  409: 'The request is not possible in the current state of the resource. `error` explains why.',
  412: 'The resource has changed since it was read: its `ETag` differs from `If-Match`.',
  413: 'The body exceeds the size limit of the operation, which `error` states.',
  415: 'The body is not JSON.',
  416: 'The `Range` begins after the end of the file, whose size is in `Content-Range`.',
  429: 'Too many requests. Try again after `Retry-After` seconds.',
  500: 'An internal error of the server. Report it with the request id.',
  503: 'The service is temporarily unavailable. Try again after `Retry-After` seconds.',
} as const
export type ErrorStatus = keyof typeof descriptions

/** An example of an error message for each status. */
const messages: Readonly<Record<ErrorStatus, string>> = {
  400: 'name: must have 1 to 40 characters',
  401: 'Sign in, or send a valid token.',
  403: 'This token does not allow that; it needs the scope "write".',
  404: 'Not found.',
  409: 'There is already an app named "web". Choose another name.',
  412: 'The resource has changed since you read it (If-Match). Read it again, and repeat the change if it still applies.',
  413: 'The body is too large: at most 64 KiB here.',
  415: 'Send the body as application/json.',
  416: 'The Range begins after the end of the file, which has 1024 bytes.',
  429: 'Too many requests. Try again in 12 s.',
  500: 'Something went wrong on our side. The request id helps us find out what.',
  503: 'Not available right now. Try again in a moment.',
}

const requestId = '0197e0f3-9a41-7c02-b5d6-21f0a8c7e913'
const details = [{ field: 'name', message: 'must have 1 to 40 characters' }]

const members = {
  error: { type: 'string', description: 'Error message for people.', examples: [messages[400]] },
  status: {
    type: 'integer',
    format: 'uint16',
    minimum: 0,
    maximum: 65_535,
    description: 'HTTP status of the response.',
    examples: [400],
  },
  code: {
    type: 'string',
    description: 'Error code for programs. New codes may be added; for an unknown code, fall back on `status`.',
    examples: ['invalid_request'],
  },
  request_id: {
    type: 'string',
    description: 'Id of the request in the logs of the server, also sent in the header `X-Request-Id`.',
    examples: [requestId],
  },
  details: {
    type: 'array',
    description: 'The invalid fields of the request. Absent if no field is invalid.',
    items: {
      type: 'object',
      required: ['field', 'message'],
      properties: {
        field: {
          type: 'string',
          description: 'JSON pointer to a body field, or name of a parameter.',
          examples: ['name'],
        },
        message: {
          type: 'string',
          description: 'What is wrong with the value of the field.',
          examples: ['must have 1 to 40 characters'],
        },
      },
    },
  },
  limit: {
    type: 'string',
    description: 'With `plan_limit_exceeded`: name of the limit that would be exceeded.',
    examples: ['max_apps'],
  },
  used: { type: 'number', description: 'With `plan_limit_exceeded`: amount in use.', examples: [10] },
  max: { type: 'number', description: 'With `plan_limit_exceeded`: amount that the plan allows.', examples: [10] },
}

const errorSchema = {
  title: 'Error',
  type: 'object',
  description: 'Error response of every operation.',
  required: ['error', 'status'],
  properties: members,
}

const problemSchema = {
  title: 'Problem',
  type: 'object',
  description:
    'The same information as `Error`, in the format of RFC 9457, for clients that accept `application/problem+json`.',
  required: ['type', 'title', 'status', 'detail'],
  properties: {
    type: {
      type: 'string',
      description: 'Always `about:blank`; `code` identifies the kind of error.',
      examples: ['about:blank'],
    },
    title: { type: 'string', description: 'The HTTP status in words.', examples: ['Bad Request'] },
    detail: { type: 'string', description: 'Error message for people.', examples: [messages[400]] },
    ...members,
  },
}

export const errorSchemas = [errorSchema, problemSchema]

const titles: Readonly<Record<ErrorStatus, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  409: 'Conflict',
  412: 'Precondition Failed',
  413: 'Payload Too Large',
  415: 'Unsupported Media Type',
  416: 'Range Not Satisfiable',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
}

/** Returns the error response of a status, which operations share in `components.responses`. */
export function errorResponse(status: ErrorStatus): Json {
  const codes = codesOf(status)
  const error = {
    error: messages[status],
    status,
    code: codes[0],
    request_id: requestId,
    ...(status === 400 ? { details } : {}),
  }
  const problem = {
    type: 'about:blank',
    title: titles[status],
    detail: messages[status],
    ...error,
  }
  return {
    description: `${descriptions[status]} Codes: ${codes.map(code => `\`${code}\``).join(', ')}.`,
    headers: headersOf(['X-Request-Id', 'Cache-Control', ...errorHeaders(status)]),
    content: {
      'application/json': { schema: reference('Error'), example: error },
      'application/problem+json': { schema: reference('Problem'), example: problem },
    },
  }
}

const codesOf = (status: ErrorStatus): ErrorCode[] => {
  const known = Object.entries(errorStatus) as [ErrorCode, number][]
  return known.filter(([, its]) => its === status).map(([code]) => code)
}

function errorHeaders(status: ErrorStatus) {
  if (status === 401) return ['WWW-Authenticate'] as const
  if (status === 429) return ['Retry-After', 'RateLimit', 'RateLimit-Policy'] as const
  return status === 503 ? (['Retry-After'] as const) : []
}
