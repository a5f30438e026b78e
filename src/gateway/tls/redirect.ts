import { type Exchange, isHttp2 } from '../exchange.ts'

/** Redirects to HTTPS with status 308, which keeps the method and the body (RFC 9110, 15.4.9). */
export function redirectToTls({ request, response, hostname }: Exchange, port: number): void {
  const location = `https://${hostname}${port === 443 ? '' : `:${port}`}${request.url ?? '/'}`
  if (isHttp2(response)) return
  response.writeHead(308, { location, 'content-length': 0, 'x-mote-gateway': 'https' })
  response.end()
}
