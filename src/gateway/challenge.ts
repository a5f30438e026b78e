/** Responds to HTTP-01 challenges (RFC 8555, 8.3). Any gateway can do so, because control has the responses. */
import { Value } from 'typebox/value'
import type { Bus } from '../bus/bus.ts'
import { ChallengeAnswer, gatewaySubjects } from '../contract/gateway.ts'
import { type Exchange, isHttp2 } from './exchange.ts'
import { hostnameOf } from './headers.ts'

const path = '/.well-known/acme-challenge/'
const askTimeoutMs = 5000

export const isChallenge = (url: string | undefined) => url?.startsWith(path) === true

/**
 * Responds to the challenge if it belongs to a certificate that control requested, and returns true. Otherwise returns
 * false: the challenge may be for a certificate that the app has requested itself.
 */
export async function answerChallenge(bus: Bus, { request, response }: Exchange): Promise<boolean> {
  const hostname = hostnameOf(request)
  const token = (request.url ?? '').slice(path.length)
  if (!hostname || !/^[A-Za-z0-9_-]{1,512}$/.test(token)) return false
  const raw = await bus.request(gatewaySubjects.challenge, { hostname, token }, { timeoutMs: askTimeoutMs })
  const { keyAuthorization } = Value.Parse(ChallengeAnswer, raw)
  if (keyAuthorization === null) return false
  const headers = { 'content-type': 'application/octet-stream', 'content-length': Buffer.byteLength(keyAuthorization) }
  if (isHttp2(response)) response.writeHead(200, headers)
  else response.writeHead(200, headers)
  response.end(keyAuthorization)
  return true
}
