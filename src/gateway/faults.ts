/** Why an attempt to forward a request got no response. */
export type Fault =
  /** No connection to the backend was made: the app has received nothing of the request. */
  | 'unreached'
  /** The connection broke during the request, so the app may have acted on it. */
  | 'broken'
  /** The backend accepted the request but did not respond in time. */
  | 'late'
  /** The backend did not cause the failure. */
  | 'other'

const faults: Readonly<Record<string, Fault>> = {
  ECONNREFUSED: 'unreached',
  EHOSTUNREACH: 'unreached',
  ENETUNREACH: 'unreached',
  EADDRNOTAVAIL: 'unreached',
  ETIMEDOUT: 'unreached',
  UND_ERR_CONNECT_TIMEOUT: 'unreached',
  ECONNRESET: 'broken',
  EPIPE: 'broken',
  UND_ERR_SOCKET: 'broken',
  UND_ERR_CLOSED: 'broken',
  UND_ERR_DESTROYED: 'broken',
  ERR_HTTP2_STREAM_ERROR: 'broken',
  ERR_HTTP2_SESSION_ERROR: 'broken',
  ERR_HTTP2_GOAWAY_SESSION: 'broken',
  UND_ERR_HEADERS_TIMEOUT: 'late',
}

export const faultOf = (error: Error): Fault =>
  ('code' in error && typeof error.code === 'string' && faults[error.code]) || 'other'
