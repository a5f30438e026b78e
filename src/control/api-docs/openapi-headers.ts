/**
 * Response headers, as components of the document. The document's introduction describes the headers for browsers,
 * which are on every response.
 */
import type { Json } from './openapi-components.ts'

const described = {
  'X-Request-Id': [
    'Id of the request in the logs of the server. A client may send its own id.',
    '0197e0f3-9a41-7c02-b5d6-21f0a8c7e913',
  ],
  'Cache-Control': [
    'Whether the response may be cached: `private, no-cache` if it has an `ETag`, otherwise `no-store`.',
    'no-store',
  ],
  ETag: [
    'Version of the resource. Send it as `If-None-Match` to read the resource only if it has changed, or as `If-Match` to change it only if it has not.',
    'W/"2jmj7l5rSw0yVb_vlWAYkK_YBwk"',
  ],
  Link: [
    '`rel="next"`: URL of the next page (RFC 8288). Absent on the last page.',
    '</v1/apps?limit=50&cursor=WyJhIl0>; rel="next"',
  ],
  'Idempotent-Replayed': [
    '`true` if this is the stored response of an earlier request with the same `Idempotency-Key`. Otherwise absent.',
    'true',
  ],
  'Content-Disposition': ['Name under which a browser saves the file (RFC 6266).', 'attachment; filename="dump.sql"'],
  'Content-Range': ['Range of bytes in the body, and size of the whole file.', 'bytes 0-1023/146515'],
  'Set-Cookie': [
    'Cookie that binds the following requests to this browser (RFC 6265).',
    'mote_scm=4f1c; Path=/v1/scm; HttpOnly; SameSite=Lax',
  ],
  RateLimit: [
    'Remaining rate limit: `r` requests are left, and the full limit is available again in `t` seconds.',
    '"tenant";r=598;t=1',
  ],
  'RateLimit-Policy': ['Rate limit that applies to the request: `q` requests in `w` seconds.', '"tenant";q=600;w=60'],
  'Retry-After': ['Seconds to wait before the next attempt.', 12],
  'WWW-Authenticate': ['The required kind of credential (RFC 9110, 11.6.1).', 'Bearer'],
} as const satisfies Readonly<Record<string, readonly [string, string | number]>>

export type HeaderName = keyof typeof described

const componentOf = (name: HeaderName) => name.replaceAll('-', '')

/** Returns references to the headers, for a response. */
export const headersOf = (names: readonly HeaderName[]): Json =>
  Object.fromEntries(names.map(name => [name, { $ref: `#/components/headers/${componentOf(name)}` }]))

const names = Object.keys(described) as HeaderName[]

/** Returns the header components. @param used names of the headers that some response references */
export const headerComponents = (used: ReadonlySet<string>): Json =>
  Object.fromEntries(
    names
      .filter(name => used.has(name))
      .map(name => {
        const [description, example] = described[name]
        return [componentOf(name), { description, schema: schemaOf(example), example }]
      }),
  )

const schemaOf = (example: string | number) =>
  typeof example === 'number' ? { type: 'integer', minimum: 0 } : { type: 'string' }
