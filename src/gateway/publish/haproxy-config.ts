/**
 * Generates a HAProxy configuration (2.4 or newer) that needs no reload when routes change. It has a fixed number of
 * backends with a fixed number of servers, which are filled over the runtime API, and a map from hostnames to backends.
 */
import type { Activator } from './names.ts'

export interface HaproxyShape {
  /** Number of apps that HAProxy can serve directly. Requests to other apps go to the gateway. */
  readonly backends: number
  /** Number of replicas per app that HAProxy can serve directly. */
  readonly servers: number
  /** Path of the Unix socket of HAProxy's runtime API. */
  readonly socket: string
  /**
   * Path of the file with the map from hostnames to backends. HAProxy reads it at startup, so it must exist, but may be
   * empty.
   */
  readonly mapFile: string
}

export const haproxyDefaults = { backends: 200, servers: 16 } as const
export const backendName = (n: number) => `mote_${n}`
export const activatorBackend = 'mote_activator'

/**
 * Returns the configuration file.
 * @param bind where HAProxy listens, e.g. `:80` or `:443 ssl crt /etc/ssl/site.pem alpn h2,http/1.1`
 */
export function haproxyConfig(shape: HaproxyShape, activator: Activator, bind: string): string {
  const backends = Array.from({ length: shape.backends }, (_, n) => backendBlock(backendName(n + 1), shape.servers))
  return `${[
    ...['global', `  stats socket ${shape.socket} mode 600 level admin`],
    ...['defaults', '  mode http', '  timeout connect 2s', '  timeout client 1h', '  timeout server 1h'],
    ...[
      '  timeout http-request 30s',
      '  timeout queue 30s',
      '  option forwardfor',
      '  option redispatch 1',
      '  retries 2',
    ],
    // HAProxy retries a request that reached no app, whatever its method.
    ...['  retry-on conn-failure', '  http-reuse safe'],
    ...['frontend mote', `  bind ${bind}`, '  http-request set-header X-Forwarded-Proto %[ssl_fc,iif(https,http)]'],
    ...['  http-request set-header X-Forwarded-Host %[req.hdr(host)]'],
    `  use_backend %[req.hdr(host),field(1,:),lower,map(${shape.mapFile},${activatorBackend})]`,
    ...[`backend ${activatorBackend}`, `  server gateway ${activator.host}:${activator.port}`],
    ...backends,
  ].join('\n')}\n`
}

const backendBlock = (name: string, servers: number) =>
  [
    `backend ${name}`,
    '  balance leastconn',
    // HAProxy marks a server that refuses connections as down, and checks it until it is up again.
    '  default-server observe layer4 error-limit 3 on-error mark-down check inter 1s fastinter 500ms fall 1 rise 1',
    `  server-template s 1-${servers} 0.0.0.0:80 disabled`,
  ].join('\n')
