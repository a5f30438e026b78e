/** One request and its response, over HTTP/1.1 or HTTP/2, with the data for the access log. */
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
  /** The client's IP address: that of the connection, or the one that a trusted proxy reported. */
  readonly client: string
  readonly secure: boolean
  readonly startedMs: number
  hostname: string | undefined
  route: Route | undefined
  vmId: string | undefined
  /** Number of attempts to reach a backend. */
  tries: number
  /** Size of the response body, in bytes. */
  bytes: number
  /** Size of the request body that was sent to the backend, in bytes. */
  bytesIn: number
  /** Time at which the first byte of the response arrived, by the same clock as `startedMs`. */
  answeredMs: number | undefined
  /** The error page that the gateway itself sent; undefined: it forwarded the app's response. */
  page: Page | undefined
  /** Aborts the request that is pending at the backend. */
  abort: (() => void) | undefined
  /** Called at the end of the request, so that it no longer counts against the limits. */
  leave: (() => void) | undefined
}

export const isHttp2 = (response: ClientResponse): response is Http2ServerResponse => 'stream' in response

/** Creates the record of a request and its response. @param client as returned by `clientAddress` */
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

/** Returns whether the client has disconnected or the response is complete. */
export const isGone = (response: ClientResponse) => (isHttp2(response) ? response.stream.destroyed : response.destroyed)

/** Writes a chunk of the response. Returns false if the client reads too slowly; the caller then waits for `drain`. */
export const writeChunk = (response: ClientResponse, chunk: Buffer): boolean =>
  isHttp2(response) ? response.write(chunk) : response.write(chunk)

/**
 * Sends the headers before the body. Has an effect only for HTTP/1.1: HTTP/2 sends headers as soon as they are written.
 */
export function flushHeaders(response: ClientResponse): void {
  if (!isHttp2(response)) response.flushHeaders()
}
