/**
 * The wire format between `control` and `gateway`. The gateway has no database: at start it requests the whole routing
 * table, then follows changes; a gap in the versions makes it request the table again.
 */
import { type Static, Type } from 'typebox'

/**
 * A VM of an app that accepts requests. `resetsClosed`: the gateway closes connections to it with a TCP reset. gVisor
 * keeps a connection that the app has closed for a minute, with up to megabytes of buffers; a reset frees them at once,
 * and the app does not notice.
 */
export const Backend = Type.Object({
  vmId: Type.String(),
  host: Type.String(),
  port: Type.Integer(),
  resetsClosed: Type.Optional(Type.Boolean()),
})
export type Backend = Static<typeof Backend>

/**
 * A VM that is about to leave its host, with the id of the move. It gets no new requests, and pending ones may finish.
 */
export const LeavingVm = Type.Object({ vmId: Type.String(), moveId: Type.String() })
export type LeavingVm = Static<typeof LeavingVm>

/** A new version of an app that gets a share of the requests as a test. Gateways report how many of these fail. */
export const CanaryRoute = Type.Object({
  deploymentId: Type.String(),
  percent: Type.Number({ minimum: 0, maximum: 100 }),
  backends: Type.Array(Backend),
})
export type CanaryRoute = Static<typeof CanaryRoute>

/**
 * How gateways handle requests for a hostname. `live`: forward them to the backends. `sleeping`: hold them and send
 * `wake` (also while the only VM moves to another host). `down`: respond with 503. `gone`: the route was removed;
 * respond with 404.
 */
export const Route = Type.Object({
  hostname: Type.String(),
  projectId: Type.String(),
  appId: Type.String(),
  state: Type.Enum(['live', 'sleeping', 'down', 'gone']),
  backends: Type.Array(Backend),
  /** Seconds that a backend's pending requests get to finish after the backend was removed from the route. */
  drainSeconds: Type.Integer(),
  /** VMs that are about to leave their hosts. Gateways report how many pending requests each still has. */
  leaving: Type.Optional(Type.Array(LeavingVm)),
  /**
   * New version of the app that gets a share of the requests. Gateways of an earlier release ignore this field and send
   * all requests to `backends`.
   */
  canary: Type.Optional(CanaryRoute),
  /** Increases with every change of this hostname's route. */
  version: Type.Integer(),
})
export type Route = Static<typeof Route>

const tcpPrefix = 'tcp/'

/** Returns the route name of a TCP service with a public port. It contains a slash, so no hostname is equal to it. */
export const tcpName = (publicPort: number) => `${tcpPrefix}${publicPort}`

/** Returns the public port of a TCP service; undefined for the route of a hostname. */
export const tcpPortOf = (hostname: string): number | undefined =>
  hostname.startsWith(tcpPrefix) ? Number(hostname.slice(tcpPrefix.length)) : undefined

const tlsPrefix = 'tls/'

/** Returns the route name of a TCP service that clients select by TLS server name. */
export const tlsName = (serverName: string) => `${tlsPrefix}${serverName}`

/** Whether a route name is a hostname; false for the route of a TCP service. */
export const isHostname = (name: string) => !name.startsWith(tcpPrefix) && !name.startsWith(tlsPrefix)

/** Request on `subjects.routes` for every route with version > `after` (0: the whole table), oldest first. */
export const RoutesRequest = Type.Object({ after: Type.Integer({ minimum: 0 }) })
export const RoutesAnswer = Type.Object({ version: Type.Integer(), routes: Type.Array(Route) })
export type RoutesAnswer = Static<typeof RoutesAnswer>

/**
 * Request on `subjects.wake` that wakes an app; idempotent. The reply is immediate, and a route change follows when the
 * app is awake.
 */
export const WakeRequest = Type.Object({ appId: Type.String() })
export type WakeRequest = Static<typeof WakeRequest>

/**
 * Interval at which a gateway reports its traffic, which is also the longest delay after which control learns of a
 * request.
 */
export const trafficReportMs = 2000

/**
 * Published by each gateway every `trafficReportMs`, and at once when `leaving` changes: the traffic since its last
 * report. The autoscaler and the detection of idle apps use these reports; a gateway without reports counts as gone.
 */
export const TrafficReport = Type.Object({
  gatewayId: Type.String(),
  atMs: Type.Number(),
  /** Length of the reported period, in ms. */
  periodMs: Type.Optional(Type.Number()),
  /** True in the last report of a gateway that shuts down. */
  stops: Type.Optional(Type.Boolean()),
  /**
   * Moves whose VM gets no new requests from this gateway, and the number of pending requests to the VM, without
   * WebSockets and event streams.
   */
  leaving: Type.Optional(Type.Array(Type.Object({ moveId: Type.String(), open: Type.Integer() }))),
  apps: Type.Array(
    Type.Object({
      appId: Type.String(),
      requests: Type.Integer(),
      errors: Type.Integer(),
      open: Type.Integer(),
      lastRequestAtMs: Type.Number(),
      /** Number of requests refused because of a limit; not counted in `requests`. */
      refused: Type.Optional(Type.Integer()),
      /** Total size of the response bodies, in bytes. */
      bytes: Type.Optional(Type.Integer()),
      /** Sum of the durations of all requests; divided by `periodMs` it is the mean number of open requests. */
      busyMs: Type.Optional(Type.Number()),
    }),
  ),
})
export type TrafficReport = Static<typeof TrafficReport>

/**
 * Certificate and private key (PEM) for a hostname, managed by control. The chain starts with the hostname's own
 * certificate.
 */
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
     * A public key (RFC 4253, 6.6, in base64). `proven`: the gateway has verified the signature. If it is false, the
     * request only checks whether the key would be accepted.
     */
    Type.Object({ kind: Type.Literal('key'), publicKey: Type.String({ maxLength: 8192 }), proven: Type.Boolean() }),
  ]),
})
export type TunnelLogin = Static<typeof TunnelLogin>

const idPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/**
 * Returns whether a bastion user name refers to a database (by id) or to an app (by name). No app name looks like an
 * id.
 */
export const loginReaches = (user: string): 'database' | 'app' => (idPattern.test(user) ? 'database' : 'app')

/**
 * Reply to a login. `grant`: token that opens a tunnel or session; null: the login is refused, and the client gets no
 * reason.
 */
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

/** Reply to `TunnelOpen`. `endpoint`: current address of the database; null: refused, and `reason` is for the user. */
export const TunnelOpenAnswer = Type.Object({
  endpoint: Type.Union([Type.Object({ host: Type.String(), port: Type.Integer() }), Type.Null()]),
  reason: Type.String(),
  /** Whether the user may open a tunnel to this database at all; absent: an older control plane. */
  mayOpen: Type.Optional(Type.Boolean()),
  /** Whether existing tunnels may stay open although a new one is refused. */
  mayStay: Type.Optional(Type.Boolean()),
})
export type TunnelOpenAnswer = Static<typeof TunnelOpenAnswer>

/** The host key of a gateway's bastion: type and key, as in a line of known_hosts. */
export const BastionKey = Type.Object({
  publicKey: Type.String({ maxLength: 2048, pattern: '^[a-z0-9@.-]{1,64} [A-Za-z0-9+/]+={0,2}$' }),
})
export type BastionKey = Static<typeof BastionKey>

export const gatewaySubjects = {
  /** Subject of a RoutesRequest; control replies with a RoutesAnswer. */
  routes: 'control.in.routes',
  /** Subject of a WakeRequest; control replies with `{}`. */
  wake: 'control.in.wake',
  /** Subject of a CertificateRequest; control replies with a CertificateAnswer. */
  certificate: 'control.in.certificate',
  /** Subject of a ChallengeRequest; control replies with a ChallengeAnswer. */
  challenge: 'control.in.challenge',
  /** Control publishes a CertificateRequest on this subject when it has issued a new certificate for the hostname. */
  certificateChanged: 'route.certificate',
  /** Subject of a TunnelLogin; control replies with a TunnelLoginAnswer. */
  tunnelLogin: 'control.in.tunnel.login',
  /** Subject of a TunnelOpen; control replies with a TunnelOpenAnswer. */
  tunnelOpen: 'control.in.tunnel.open',
  /** Subject on which a gateway sends its BastionKey; control replies with `{}`. */
  tunnelKey: 'control.in.tunnel.key',
  /** Control publishes a Route on this subject whenever it changes. */
  routeChanged: 'route.changed',
  /** Gateways publish their TrafficReport on this subject. */
  traffic: 'gateway.out.traffic',
} as const
