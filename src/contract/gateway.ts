/**
 * The wire format between `control` and `gateway`. The gateway has no database: at start it requests the whole routing
 * table, then follows changes; a gap in the versions makes it request the table again.
 */
import { type Static, Type } from 'typebox'

/**
 * `resetsClosed`: the gateway closes connections to this backend with a TCP reset. gVisor keeps a connection that the
 * app has closed for a minute, with up to megabytes of buffers; a reset frees them at once, and the app does not
 * notice.
 */
export const Backend = Type.Object({
  vmId: Type.String(),
  host: Type.String(),
  port: Type.Integer(),
  resetsClosed: Type.Optional(Type.Boolean()),
})
export type Backend = Static<typeof Backend>

/**
 * A VM that is about to leave its host, with the id of the move. It gets no new requests, and running requests may
 * finish.
 */
export const LeavingVm = Type.Object({ vmId: Type.String(), moveId: Type.String() })
export type LeavingVm = Static<typeof LeavingVm>

/** A new version that gets a share of the requests. Gateways report how many of them failed. */
export const CanaryRoute = Type.Object({
  deploymentId: Type.String(),
  percent: Type.Number({ minimum: 0, maximum: 100 }),
  backends: Type.Array(Backend),
})
export type CanaryRoute = Static<typeof CanaryRoute>

/**
 * `live`: send traffic to the backends. `sleeping`: hold the request and send `wake` (also while the only VM moves
 * between two hosts). `down`: 503. `gone`: remove the route (404).
 */
export const Route = Type.Object({
  hostname: Type.String(),
  projectId: Type.String(),
  appId: Type.String(),
  state: Type.Enum(['live', 'sleeping', 'down', 'gone']),
  backends: Type.Array(Backend),
  /** Seconds that a removed backend has to finish its requests. */
  drainSeconds: Type.Integer(),
  /** VMs outside `backends` that are being drained. Gateways report how many requests each still serves. */
  leaving: Type.Optional(Type.Array(LeavingVm)),
  /** Gateways of an earlier release ignore this field and send all requests to `backends`. */
  canary: Type.Optional(CanaryRoute),
  /** Increases with every change of this hostname's route. */
  version: Type.Integer(),
})
export type Route = Static<typeof Route>

const tcpPrefix = 'tcp/'

/** Route name of a TCP service. No hostname contains a slash, so it cannot collide with one. */
export const tcpName = (publicPort: number) => `${tcpPrefix}${publicPort}`

/** Returns the public port of a TCP service; undefined for the route of a hostname. */
export const tcpPortOf = (hostname: string): number | undefined =>
  hostname.startsWith(tcpPrefix) ? Number(hostname.slice(tcpPrefix.length)) : undefined

const tlsPrefix = 'tls/'

/** Route name of a TCP service that clients select by TLS server name. */
export const tlsName = (serverName: string) => `${tlsPrefix}${serverName}`

/** False for the route of a TCP service. */
export const isHostname = (name: string) => !name.startsWith(tcpPrefix) && !name.startsWith(tlsPrefix)

/** `subjects.routes`: returns every route with version > `after` (0: the whole table), oldest first. */
export const RoutesRequest = Type.Object({ after: Type.Integer({ minimum: 0 }) })
export const RoutesAnswer = Type.Object({ version: Type.Integer(), routes: Type.Array(Route) })
export type RoutesAnswer = Static<typeof RoutesAnswer>

/** `subjects.wake`: idempotent. The reply is immediate; a route change follows when the app is awake. */
export const WakeRequest = Type.Object({ appId: Type.String() })
export type WakeRequest = Static<typeof WakeRequest>

/** Interval at which a gateway reports its traffic, and so the longest delay until control learns of a request. */
export const trafficReportMs = 2000

/**
 * Published by each gateway every `trafficReportMs`, and at once when `leaving` changes: the traffic since the last
 * report. The autoscaler and the detection of idle apps use it; a gateway without reports counts as gone.
 */
export const TrafficReport = Type.Object({
  gatewayId: Type.String(),
  atMs: Type.Number(),
  /** Length of the reported period. */
  periodMs: Type.Optional(Type.Number()),
  /** Set in the last report of a gateway that shuts down. */
  stops: Type.Optional(Type.Boolean()),
  /**
   * Moves whose VM gets no new requests from this gateway, and the number of ordinary requests that it still serves.
   */
  leaving: Type.Optional(Type.Array(Type.Object({ moveId: Type.String(), open: Type.Integer() }))),
  apps: Type.Array(
    Type.Object({
      appId: Type.String(),
      requests: Type.Integer(),
      errors: Type.Integer(),
      open: Type.Integer(),
      lastRequestAtMs: Type.Number(),
      /** Requests refused because of a limit; not counted in `requests`. */
      refused: Type.Optional(Type.Integer()),
      /** Total size of the response bodies. */
      bytes: Type.Optional(Type.Integer()),
      /** Sum of the durations of all requests; divided by `periodMs` it is the mean number of open requests. */
      busyMs: Type.Optional(Type.Number()),
    }),
  ),
})
export type TrafficReport = Static<typeof TrafficReport>

/** Certificate of a hostname that control manages. PEM; the chain starts with the hostname's own certificate. */
export const Certificate = Type.Object({ chain: Type.String(), key: Type.String(), notAfterMs: Type.Number() })
export type Certificate = Static<typeof Certificate>

/**
 * Requests the certificate of a hostname. Private keys are sent only in replies, which only the requesting gateway can
 * read.
 */
export const CertificateRequest = Type.Object({ hostname: Type.String({ maxLength: 253 }) })
export const CertificateAnswer = Type.Object({ certificate: Type.Union([Certificate, Type.Null()]) })
export type CertificateAnswer = Static<typeof CertificateAnswer>

/** Requests the response to an HTTP challenge of a certificate authority (RFC 8555, 8.3). */
export const ChallengeRequest = Type.Object({
  hostname: Type.String({ maxLength: 253 }),
  token: Type.String({ maxLength: 512 }),
})
export const ChallengeAnswer = Type.Object({ keyAuthorization: Type.Union([Type.String(), Type.Null()]) })
export type ChallengeAnswer = Static<typeof ChallengeAnswer>

/**
 * A login to a bastion. `user`: id of a database (its current branch) or of a branch, or `<app>` or `<app>.<project>` for
 * the VMs of an app.
 */
export const TunnelLogin = Type.Object({
  user: Type.String({ maxLength: 200 }),
  ip: Type.String(),
  credential: Type.Union([
    Type.Object({ kind: Type.Literal('token'), token: Type.String({ maxLength: 512 }) }),
    /**
     * A public key (RFC 4253, 6.6, in base64). `proven`: the gateway has verified the signature. Without it, the
     * request only checks whether the key would be accepted.
     */
    Type.Object({ kind: Type.Literal('key'), publicKey: Type.String({ maxLength: 8192 }), proven: Type.Boolean() }),
  ]),
})
export type TunnelLogin = Static<typeof TunnelLogin>

const idPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Whether a bastion user name refers to a database (by id) or to an app (by name). No app name looks like an id. */
export const loginReaches = (user: string): 'database' | 'app' => (idPattern.test(user) ? 'database' : 'app')

/** `grant`: to be presented when a tunnel or a session is opened; null: refused, without a reason for the client. */
export const TunnelLoginAnswer = Type.Object({ grant: Type.Union([Type.String(), Type.Null()]) })
export type TunnelLoginAnswer = Static<typeof TunnelLoginAnswer>

/**
 * Opens a tunnel to a database. Permissions are checked again for every tunnel: the token may have been revoked since
 * the login.
 */
export const TunnelOpen = Type.Object({
  grant: Type.String({ maxLength: 2048 }),
  host: Type.String({ maxLength: 255 }),
  port: Type.Integer(),
})
export type TunnelOpen = Static<typeof TunnelOpen>

/** `endpoint`: current address of the database; null: refused, and `reason` is for the user. */
export const TunnelOpenAnswer = Type.Object({
  endpoint: Type.Union([Type.Object({ host: Type.String(), port: Type.Integer() }), Type.Null()]),
  reason: Type.String(),
  /**
   * False: this user may not open a tunnel to this database at all. Absent: the reply comes from an older control
   * plane.
   */
  mayOpen: Type.Optional(Type.Boolean()),
  /** True: existing tunnels may stay open; only new ones are refused. */
  mayStay: Type.Optional(Type.Boolean()),
})
export type TunnelOpenAnswer = Static<typeof TunnelOpenAnswer>

/** The host key of a gateway's bastion: type and key, as in a line of known_hosts. */
export const BastionKey = Type.Object({
  publicKey: Type.String({ maxLength: 2048, pattern: '^[a-z0-9@.-]{1,64} [A-Za-z0-9+/]+={0,2}$' }),
})
export type BastionKey = Static<typeof BastionKey>

export const gatewaySubjects = {
  /** RoutesRequest -> RoutesAnswer */
  routes: 'control.in.routes',
  /** WakeRequest -> {} */
  wake: 'control.in.wake',
  /** CertificateRequest -> CertificateAnswer */
  certificate: 'control.in.certificate',
  /** ChallengeRequest -> ChallengeAnswer */
  challenge: 'control.in.challenge',
  /** CertificateRequest, published by control when a new certificate was issued. */
  certificateChanged: 'route.certificate',
  /** TunnelLogin -> TunnelLoginAnswer */
  tunnelLogin: 'control.in.tunnel.login',
  /** TunnelOpen -> TunnelOpenAnswer */
  tunnelOpen: 'control.in.tunnel.open',
  /** BastionKey -> {} */
  tunnelKey: 'control.in.tunnel.key',
  /** Route, published by control on every change. */
  routeChanged: 'route.changed',
  /** TrafficReport */
  traffic: 'gateway.out.traffic',
} as const
