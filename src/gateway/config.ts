/**
 * The gateway's configuration. It is parsed once at the start; no other file of the gateway reads environment
 * variables.
 */
import type { BastionConfig } from './bastion/bastion.ts'
import { parsePortRange, type PortRange } from '../lib/port-range.ts'
import type { Limits } from './limits.ts'
import { haproxyDefaults } from './publish/haproxy-config.ts'
import type { PublishConfig } from './publish/server.ts'

export interface GatewayConfig {
  readonly host: string
  readonly port: number
  /** How long a request to a sleeping app is held until the app is awake. */
  readonly wakeTimeoutMs: number
  /** How long the gateway waits for the first byte of an app's response. */
  readonly responseTimeoutMs: number
  /** Maximum number of open connections to one VM. */
  readonly connectionsPerBackend: number
  readonly limits: Limits & {
    /** Maximum number of client connections, in total and per client IP address; 0: no limit. */
    readonly connections: number
    readonly connectionsPerClient: number
  }
  readonly tls: TlsConfig
  /** Ports on which TCP services can listen; undefined: no such services. */
  readonly tcp: { readonly ports: PortRange; readonly idleMs: number } | undefined
  /** Port shared by TCP services that are selected by TLS server name; undefined: no such services. */
  readonly tcpTls: { readonly port: number; readonly idleMs: number; readonly handshakeMs: number } | undefined
  /** How the gateway publishes its routes to a proxy of the site in front of it. */
  readonly publish: PublishConfig
  /** Access log: a file, `-` for standard output, or empty: no log. */
  readonly accessLog: string
  /** IP addresses of trusted proxies, whose `X-Forwarded-For` is kept. From other clients the header is replaced. */
  readonly trustedProxies: readonly string[]
  /** The SSH bastion; undefined: no bastion. */
  readonly bastion: BastionConfig | undefined
}

export interface TlsConfig {
  /** Port for HTTPS; undefined: no TLS. */
  readonly port: number | undefined
  /** Directory with pairs of `<name>.crt` and `<name>.key`; empty: none. */
  readonly certificates: string
  /** Whether plain HTTP requests are redirected to HTTPS if the hostname has a certificate. */
  readonly redirect: boolean
  /** How long browsers should use only HTTPS (RFC 6797), in seconds; 0: no such header. */
  readonly hstsSeconds: number
}

export const gatewayDefaults = {
  host: '0.0.0.0',
  port: 7080,
  wakeTimeoutMs: 30_000,
  responseTimeoutMs: 60_000,
  connectionsPerBackend: 256,
  limits: {
    appOpen: 8192,
    appPerSecond: 0,
    clientOpen: 2048,
    clientPerSecond: 0,
    connections: 32_768,
    connectionsPerClient: 4096,
  },
  tls: { port: undefined, certificates: '', redirect: false, hstsSeconds: 0 },
  tcp: undefined,
  tcpTls: undefined,
  publish: { port: undefined, entryPoints: [], haproxy: undefined },
  accessLog: '',
  trustedProxies: [],
  bastion: undefined,
} as const satisfies GatewayConfig

interface GatewaySetting {
  readonly env: string
  readonly fallback: string
  readonly help: string
}
const setting = (env: string, fallback: number | string, help: string): GatewaySetting => ({
  env,
  fallback: String(fallback),
  help,
})

const { limits } = gatewayDefaults

/** The gateway's settings as listed in `docs/operating.md`, without those that all programs share. */
export const gatewaySettings = {
  wakeTimeout: setting(
    'MOTE_GATEWAY_WAKE_TIMEOUT',
    30,
    'seconds the gateway holds a request to an app that is scaled to zero',
  ),
  responseTimeout: setting(
    'MOTE_GATEWAY_RESPONSE_TIMEOUT',
    60,
    'seconds within which the response of an app must begin',
  ),
  vmConnections: setting('MOTE_GATEWAY_VM_CONNECTIONS', 256, 'open connections of a gateway to one VM'),
  appOpen: setting('MOTE_GATEWAY_APP_OPEN', limits.appOpen, 'open requests of one app; 0: no limit'),
  appRate: setting('MOTE_GATEWAY_APP_RATE', limits.appPerSecond, 'requests per second to one app; 0: no limit'),
  clientOpen: setting('MOTE_GATEWAY_CLIENT_OPEN', limits.clientOpen, 'open requests of one IP address; 0: no limit'),
  clientRate: setting(
    'MOTE_GATEWAY_CLIENT_RATE',
    limits.clientPerSecond,
    'requests per second of one IP address; 0: no limit',
  ),
  connections: setting(
    'MOTE_GATEWAY_CONNECTIONS',
    limits.connections,
    'open connections of clients to a gateway; 0: no limit',
  ),
  clientConnections: setting(
    'MOTE_GATEWAY_CLIENT_CONNECTIONS',
    limits.connectionsPerClient,
    'open connections of one IP address, except trusted proxies; 0: no limit',
  ),
  tlsPort: setting('MOTE_GATEWAY_TLS_PORT', '', 'port for HTTPS; none when empty'),
  certificates: setting(
    'MOTE_GATEWAY_CERTIFICATES',
    '',
    'directory of <name>.crt (with its chain) and <name>.key in PEM; changes take effect within 2 s',
  ),
  redirect: setting(
    'MOTE_GATEWAY_HTTPS_REDIRECT',
    'false',
    'true: redirect plain HTTP to HTTPS if there is a certificate',
  ),
  hsts: setting(
    'MOTE_GATEWAY_HSTS_SECONDS',
    0,
    'max-age of the Strict-Transport-Security header in seconds; 0: no header',
  ),
  tcpIdle: setting(
    'MOTE_TCP_IDLE_TIMEOUT',
    3600,
    'seconds without data after which a connection to a TCP service is closed; 0: never',
  ),
  publishPort: setting(
    'MOTE_GATEWAY_PUBLISH_PORT',
    '',
    'port on loopback that publishes the routes for your own proxy (/traefik, /haproxy.cfg) and /ready; none when empty',
  ),
  traefikEntryPoints: setting(
    'MOTE_TRAEFIK_ENTRY_POINTS',
    '',
    'entry points of Traefik for the routes; all when empty',
  ),
  haproxySocket: setting(
    'MOTE_HAPROXY_SOCKET',
    '',
    'runtime API of a HAProxy that the gateway configures; none when empty',
  ),
  haproxyMap: setting(
    'MOTE_HAPROXY_MAP',
    '/etc/haproxy/mote.map',
    'map file of that HAProxy, which must exist when HAProxy starts',
  ),
  accessLog: setting('MOTE_GATEWAY_ACCESS_LOG', '', 'access log file, - for the standard output; none when empty'),
} as const satisfies Record<string, GatewaySetting>

/** Timeout for TLS handshakes, long enough for a bad link. */
const handshakeMs = 10_000

type Env = Readonly<Record<string, string | undefined>>

/**
 * Parses the gateway's settings from the environment. Listen addresses are settings of the programs that contain a
 * gateway.
 * @throws Error that lists all faults at once
 */
export function parseGatewayEnv(env: Env): Omit<GatewayConfig, 'host' | 'port' | 'bastion'> {
  const faults: string[] = []
  const text = ({ env: name, fallback }: GatewaySetting) => env[name] || fallback
  const whole = (one: GatewaySetting, min = 0) => {
    const value = Number(text(one))
    if (!Number.isInteger(value) || value < min)
      faults.push(`${one.env}="${text(one)}": must be a whole number from ${min} (${one.help})`)
    return value
  }
  const flag = (one: GatewaySetting) => {
    if (!['true', 'false'].includes(text(one))) faults.push(`${one.env}="${text(one)}": must be true or false`)
    return text(one) === 'true'
  }
  const s = gatewaySettings
  const tcpPorts = portsOf(env['MOTE_TCP_PORTS'] ?? '', faults)
  const tcpTlsPort = env['MOTE_TCP_TLS_PORT'] ?? ''
  const idleMs = whole(s.tcpIdle) * 1000
  const config = {
    wakeTimeoutMs: whole(s.wakeTimeout, 1) * 1000,
    responseTimeoutMs: whole(s.responseTimeout, 1) * 1000,
    connectionsPerBackend: whole(s.vmConnections, 1),
    limits: {
      appOpen: whole(s.appOpen),
      appPerSecond: whole(s.appRate),
      clientOpen: whole(s.clientOpen),
      clientPerSecond: whole(s.clientRate),
      connections: whole(s.connections),
      connectionsPerClient: whole(s.clientConnections),
    },
    tls: {
      port: text(s.tlsPort) === '' ? undefined : whole(s.tlsPort),
      certificates: text(s.certificates),
      redirect: flag(s.redirect),
      hstsSeconds: whole(s.hsts),
    },
    tcpTls: tcpTlsPort === '' ? undefined : { port: portOf(tcpTlsPort, faults), idleMs, handshakeMs },
    tcp: tcpPorts && { ports: tcpPorts, idleMs },
    publish: {
      port: text(s.publishPort) === '' ? undefined : whole(s.publishPort),
      entryPoints: listOf(text(s.traefikEntryPoints)),
      haproxy:
        text(s.haproxySocket) === ''
          ? undefined
          : { ...haproxyDefaults, socket: text(s.haproxySocket), mapFile: text(s.haproxyMap) },
    },
    accessLog: text(s.accessLog),
    trustedProxies: listOf(env['MOTE_TRUSTED_PROXIES']),
  }
  if (faults.length > 0) throw new Error(`The gateway's configuration has faults:\n  ${faults.join('\n  ')}`)
  return config
}

function portOf(text: string, faults: string[]): number {
  const port = Number(text)
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    faults.push(`MOTE_TCP_TLS_PORT="${text}": must be a port, from 1 to 65535`)
  return port
}

function portsOf(text: string, faults: string[]): PortRange | undefined {
  try {
    return parsePortRange(text)
  } catch (cause) {
    faults.push(`MOTE_TCP_PORTS="${text}": ${cause instanceof Error ? cause.message : 'invalid'}`)
    return undefined
  }
}

const listOf = (text: string | undefined) =>
  (text ?? '')
    .split(',')
    .map(item => item.trim())
    .filter(item => item !== '')
