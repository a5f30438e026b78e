/** One request and its answer, over HTTP/1.1 or HTTP/2, with the data for the access log. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import { TLSSocket } from 'node:tls'
import type { Route } from '../contract/gateway.ts'
import type { Page } from './pages.ts'

export type ClientRequest = IncomingMessage | Http2ServerRequest
export type ClientResponse = ServerResponse | Http2ServerResponse

export interface Exchange {
  readonly request: ClientRequest
  readonly response: ClientResponse
  /** The client's address: of the connection, or as reported by a trusted proxy. */
  readonly client: string
  readonly secure: boolean
  readonly startedMs: number
  hostname: string | undefined
  route: Route | undefined
  vmId: string | undefined
  /** Number of attempts at backends. */
  tries: number
  /** Size of the body of the answer. */
  bytes: number
  /** Size of the body that was sent to the backend. */
  bytesIn: number
  /** When the first byte of the answer came, on the clock of `startedMs`. */
  answeredMs: number | undefined
  /** The page that the gateway itself answered with. */
  page: Page | undefined
  /** Aborts the pending request at the backend. */
  abort: (() => void) | undefined
  /** Reverts the counts of its admission. */
  leave: (() => void) | undefined
}

export const isHttp2 = (response: ClientResponse): response is Http2ServerResponse => 'stream' in response

/** @param client see `clientAddress` */
export function newExchange(request: ClientRequest, response: ClientResponse, client: string): Exchange {
  return {
    request,
    response,
    client,
    secure: request.socket instanceof TLSSocket || ('encrypted' in request.socket && request.socket.encrypted === true),
    startedMs: performance.now(),
    hostname: undefined,
    route: undefined,
    vmId: undefined,
    tries: 0,
    bytes: 0,
    bytesIn: 0,
    answeredMs: undefined,
    page: undefined,
    abort: undefined,
    leave: undefined,
  }
}

/** True if the client disconnected or the answer is complete. */
export const isGone = (response: ClientResponse) => (isHttp2(response) ? response.stream.destroyed : response.destroyed)

/** Returns false if the client reads too slowly and the caller should wait for `drain`. */
export const writeChunk = (response: ClientResponse, chunk: Buffer): boolean =>
  isHttp2(response) ? response.write(chunk) : response.write(chunk)

/** HTTP/2 sends headers as they are written. */
export function flushHeaders(response: ClientResponse): void {
  if (!isHttp2(response)) response.flushHeaders()
}
