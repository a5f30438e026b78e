/** One request and its answer, HTTP/1.1 or HTTP/2, with what is to be said about it at the end. */
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
  /** Address of whoever asked: of the connection, or what a trusted proxy says. */
  readonly client: string
  readonly secure: boolean
  readonly startedMs: number
  hostname: string | undefined
  route: Route | undefined
  vmId: string | undefined
  /** How often it was sent to a backend. */
  tries: number
  /** Of the body of the answer. */
  bytes: number
  /** What the gateway itself answered with. */
  page: Page | undefined
  /** Gives up what is under way at a backend. */
  abort: (() => void) | undefined
  /** Undoes what letting it in has counted. */
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
    page: undefined,
    abort: undefined,
    leave: undefined,
  }
}

/** The client left, or all has been said. */
export const isGone = (response: ClientResponse) => (isHttp2(response) ? response.stream.destroyed : response.destroyed)

/** False when the client should be given time to read. */
export const writeChunk = (response: ClientResponse, chunk: Buffer): boolean =>
  isHttp2(response) ? response.write(chunk) : response.write(chunk)

/** HTTP/2 sends them as they are written. */
export function flushHeaders(response: ClientResponse): void {
  if (!isHttp2(response)) response.flushHeaders()
}
