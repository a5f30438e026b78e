/**
 * The wire between `control` and `gateway`. The gateway has no database: at start it asks for the whole table, then
 * follows changes; a hole in the versions makes it ask again.
 */
import { type Static, Type } from 'typebox'

export const Backend = Type.Object({ vmId: Type.String(), host: Type.String(), port: Type.Integer() })
export type Backend = Static<typeof Backend>

/** A VM that is about to leave its host, and the move: it gets no new requests, and those under way may end. */
export const LeavingVm = Type.Object({ vmId: Type.String(), moveId: Type.String() })
export type LeavingVm = Static<typeof LeavingVm>

/** `live`: send traffic to the backends. `sleeping`: hold the request, ask `wake` (also while the only VM is between two
 * hosts). `down`: 503. `gone`: forget it (404). */
export const Route = Type.Object({
  hostname: Type.String(),
  projectId: Type.String(),
  appId: Type.String(),
  state: Type.Enum(['live', 'sleeping', 'down', 'gone']),
  backends: Type.Array(Backend),
  /** Seconds a backend that left the route may finish its requests. */
  drainSeconds: Type.Integer(),
  /** None of them is among the backends. Gateways report how many requests each still has. */
  leaving: Type.Optional(Type.Array(LeavingVm)),
  /** Grows with every change of this hostname's route. */
  version: Type.Integer(),
})
export type Route = Static<typeof Route>

/** `subjects.routes`: answers every route with version > `after` (0: the whole table), oldest first. */
export const RoutesRequest = Type.Object({ after: Type.Integer({ minimum: 0 }) })
export const RoutesAnswer = Type.Object({ version: Type.Integer(), routes: Type.Array(Route) })
export type RoutesAnswer = Static<typeof RoutesAnswer>

/** `subjects.wake`: idempotent; answers at once, the route change tells the rest. */
export const WakeRequest = Type.Object({ appId: Type.String() })
export type WakeRequest = Static<typeof WakeRequest>

/** How often a gateway reports what its apps were asked; until then control knows nothing of a request. */
export const trafficReportMs = 2000

/**
 * Published by each gateway every `trafficReportMs`, and at once when `leaving` changes: what it served since the last
 * report. Feeds idle detection and the autoscaler; silence means that the gateway is gone.
 */
export const TrafficReport = Type.Object({
  gatewayId: Type.String(),
  atMs: Type.Number(),
  /** What the report covers. */
  periodMs: Type.Optional(Type.Number()),
  /** The last report of a gateway that stops. */
  stops: Type.Optional(Type.Boolean()),
  /** Moves whose VM gets no new requests here, and how many ordinary requests are still under way there. */
  leaving: Type.Optional(Type.Array(Type.Object({ moveId: Type.String(), open: Type.Integer() }))),
  apps: Type.Array(
    Type.Object({
      appId: Type.String(),
      requests: Type.Integer(),
      errors: Type.Integer(),
      open: Type.Integer(),
      lastRequestAtMs: Type.Number(),
      /** Turned away because of a limit; not among `requests`. */
      refused: Type.Optional(Type.Integer()),
      /** Of bodies of answers. */
      bytes: Type.Optional(Type.Integer()),
      /** Sum over the requests of how long each was open; by `periodMs`: the mean number of open requests. */
      busyMs: Type.Optional(Type.Number()),
    }),
  ),
})
export type TrafficReport = Static<typeof TrafficReport>

/** Of a hostname that control keeps a certificate for. PEM; the chain begins with its own. */
export const Certificate = Type.Object({ chain: Type.String(), key: Type.String(), notAfterMs: Type.Number() })
export type Certificate = Static<typeof Certificate>

/** Keys travel in answers only, which nobody but the asking gateway can read. */
export const CertificateRequest = Type.Object({ hostname: Type.String({ maxLength: 253 }) })
export const CertificateAnswer = Type.Object({ certificate: Type.Union([Certificate, Type.Null()]) })
export type CertificateAnswer = Static<typeof CertificateAnswer>

/** RFC 8555, 8.3: what a certificate authority asks for over HTTP. */
export const ChallengeRequest = Type.Object({
  hostname: Type.String({ maxLength: 253 }),
  token: Type.String({ maxLength: 512 }),
})
export const ChallengeAnswer = Type.Object({ keyAuthorization: Type.Union([Type.String(), Type.Null()]) })
export type ChallengeAnswer = Static<typeof ChallengeAnswer>

/** Somebody wants a tunnel to a database. `user`: id of a database (its current branch) or of a branch. */
export const TunnelLogin = Type.Object({
  user: Type.String({ maxLength: 64 }),
  ip: Type.String(),
  credential: Type.Union([
    Type.Object({ kind: Type.Literal('token'), token: Type.String({ maxLength: 512 }) }),
    /**
     * RFC 4253, 6.6, in base64. The gateway checks the signature; `proven` says that it has. Before, the question is
     * only whether that key would do.
     */
    Type.Object({ kind: Type.Literal('key'), publicKey: Type.String({ maxLength: 8192 }), proven: Type.Boolean() }),
  ]),
})
export type TunnelLogin = Static<typeof TunnelLogin>

/** `grant`: what to show when a tunnel is opened; null: refused, and nobody is told why. */
export const TunnelLoginAnswer = Type.Object({ grant: Type.Union([Type.String(), Type.Null()]) })
export type TunnelLoginAnswer = Static<typeof TunnelLoginAnswer>

/** Rights are looked at again for every tunnel: the token may have been revoked since the login. */
export const TunnelOpen = Type.Object({
  grant: Type.String({ maxLength: 2048 }),
  host: Type.String({ maxLength: 255 }),
  port: Type.Integer(),
})
export type TunnelOpen = Static<typeof TunnelOpen>

/** `endpoint`: where the database is now; null: `reason` is for the user. */
export const TunnelOpenAnswer = Type.Object({
  endpoint: Type.Union([Type.Object({ host: Type.String(), port: Type.Integer() }), Type.Null()]),
  reason: Type.String(),
  /** False: not to whoever asks, wherever it is. Absent: an older program answers. */
  mayOpen: Type.Optional(Type.Boolean()),
  /** True: only what is new is refused. */
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
  /** CertificateRequest, published by control when there is a new one. */
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
