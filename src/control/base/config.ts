/**
 * The control plane's configuration: one frozen object, parsed once at start, with all errors reported together. Only
 * this file and config-parts.ts read the environment. settings.ts lists the settings.
 */
import type { PortRange } from '../../lib/port-range.ts'
import { type Environment, readBilling, readDatabases, readScm, readSecrets, settingReader } from './config-parts.ts'
import { controlSettings } from './settings.ts'

export interface ControlConfig {
  /** The first secret encrypts and signs; all of them decrypt and verify. */
  readonly secrets: readonly string[]
  readonly accessTokenTtlSeconds: number
  readonly refreshTokenTtlSeconds: number
  readonly captchaRequired: boolean
  /** Apps are served at `<app>-<project>.<domain>`. */
  readonly domain: string
  /** Public URL of the gateway, for links: scheme and, unless it is the default, port. */
  readonly gatewayUrl: string
  readonly publicUrl: string
  readonly defaultPlan: string
  readonly trustedProxies: readonly string[]
  readonly corsOrigins: readonly string[]
  readonly rateLimits: {
    readonly tenantPerMinute: number
    readonly anonymousPerMinute: number
    readonly loginPerMinute: number
    readonly createsPerSecond: number
    readonly refusalDelayMs: number
  }
  readonly cpuOvercommit: number
  /** A host that is silent for longer is suspected to be down. */
  readonly hostTimeoutSeconds: number
  /** Names of the labels of hosts that apps may see and use. */
  readonly publicLabels: readonly string[]
  /** Time limit of a rollout. */
  readonly rolloutTimeoutSeconds: number
  /** Time that running requests have to finish before a VM moves. */
  readonly moveDrainSeconds: number
  readonly maxRestarts: number
  /** Idle time after which an app that may scale to zero does so. */
  readonly idleSeconds: number
  /** Open requests per replica above which the autoscaler adds one; 0: it uses CPU and memory only. */
  readonly requestsPerReplica: number
  readonly streamsPerUser: number
  /** Name servers for checking custom domains, `address` or `address:port`; empty: those of the system. */
  readonly dnsServers: readonly string[]
  /** Directory URL of a certificate authority (RFC 8555); empty: none. */
  readonly acmeDirectory: string
  readonly acmeEmail: string
  /** CA file for verifying the certificate authority's API; empty: the system's CAs. */
  readonly acmeCa: string
  /** Networks (CIDR) that may call /re-attach and /validate; empty: loopback, if the API listens there. */
  readonly storageNetworks: readonly string[]
  /** Prefix from which projects get a /64; undefined: the random one in the database. */
  readonly ipv6Prefix: string | undefined
  /** IPv4 network from which each host of the mesh gets a /20 for its guests. */
  readonly guestNetwork: string
  /** Retention of the log lines of apps. */
  readonly logDays: number
  /** 0: the audit log is retained forever. */
  readonly auditRetentionDays: number
  readonly historyDays: number
  /** File to which signed heads of the audit log are appended; empty: they are only logged. */
  readonly auditHeadsFile: string
  /** `smtp://user:password@host:587` or `smtps://...`; undefined: no e-mail is sent. */
  readonly smtpUrl: string | undefined
  readonly mailFrom: string
  readonly billing: BillingConfig
  readonly databases: DatabaseConfig
  /** `registry/path` to which built images are pushed; empty: they stay on the only host. */
  readonly registry: string
  /** Public address of the installation's own registry; empty: there is none. */
  readonly registryUrl: string
  /** Ports on gateways for TCP services; undefined: none. */
  readonly tcpPorts: PortRange | undefined
  /** Shared port of gateways for TCP services with TLS; undefined: none. */
  readonly tcpTlsPort: number | undefined
  readonly buildTimeoutMinutes: number
  /** Directory of uploaded sources until they are built; empty: uploads are refused. */
  readonly sourceDir: string
  /** Allows builds of repositories with private addresses or without TLS. */
  readonly privateGitHosts: boolean
  /** Cents per unit of usage. */
  readonly prices: UsagePrices
  readonly budgetGraceHours: number
  /** Each pull request from a branch of the same repository gets a preview app. */
  readonly previews: boolean
  /** Undefined: no source host integration. */
  readonly scm: ScmConfig | undefined
}

export interface UsagePrices {
  readonly vcpuHour: number
  readonly gibHour: number
  readonly storageGbMonth: number
  readonly egressGb: number
}

/** A GitHub App on github.com or a GitHub Enterprise Server. */
export interface ScmConfig {
  readonly appId: string
  /** Name of the app in URLs: `<web>/apps/<slug>`. */
  readonly slug: string
  /** PEM. */
  readonly privateKey: string
  readonly webhookSecret: string
  /** OAuth credentials of the app, used to verify who installed it. */
  readonly clientId: string
  readonly clientSecret: string
  readonly webUrl: string
  readonly apiUrl: string
}

export interface DatabaseConfig {
  /** Offered major versions of PostgreSQL; the first is the default. */
  readonly versions: readonly number[]
  readonly backend: 'volume' | 'neon'
  /** Management API of the page server. Only with `neon`. */
  readonly pageserverUrl: string
  /** Image of a VM that stores its data on a page server. */
  readonly neonImage: string
  /** Page servers besides node 1. One without a URL may re-attach but gets no new tenants. */
  readonly storageNodes: readonly { readonly id: number; readonly url: string }[]
  /** Bearer token of page servers outside of the known networks. */
  readonly storageSecret: string
  /** Public address of the gateways' SSH bastion. */
  readonly sshHost: string
  readonly sshPort: number
  readonly backupHours: number
  readonly backupsKept: number
  readonly drillHours: number
  /** How long a spare VM is held ready after a snapshot, or its newest branch. */
  readonly spareMinutes: number
}

export interface BillingConfig {
  readonly provider: 'none' | 'sandbox' | 'polar' | 'stripe'
  readonly apiKey: string
  /** Overrides the provider's production URL. */
  readonly apiUrl: string | undefined
  /** All of them are accepted, to allow rotation. */
  readonly webhookSecrets: readonly string[]
  /** Plan by product id; other products use their metadata `mote_plan`. */
  readonly plans: ReadonlyMap<string, string>
  readonly defaultProduct: string | undefined
  /** Allowed hosts for redirects of the browser, besides the provider's own. */
  readonly redirectHosts: readonly string[]
  readonly graceDays: number
}

/**
 * @param env the process environment (or a test's)
 * @param fallbackSecretFile read if no secret is configured: the key file of the all-in-one
 * @throws Error that lists every problem
 */
export function parseControlConfig(env: Environment, fallbackSecretFile?: string): ControlConfig {
  const faults: string[] = []
  const read = settingReader(env, faults)
  const s = controlSettings
  const secrets = readSecrets(env, fallbackSecretFile, faults)
  const billing = readBilling(read, faults)
  const databases = readDatabases(read, faults)
  // With billing enabled, new projects must not default to the largest plan.
  const defaultPlan = billing.provider !== 'none' && !env[s.defaultPlan.env] ? 'free' : read(s.defaultPlan)
  const config: ControlConfig = Object.freeze({
    secrets,
    accessTokenTtlSeconds: read(s.accessTokenTtlSeconds),
    refreshTokenTtlSeconds: read(s.refreshTokenTtlSeconds),
    captchaRequired: read(s.captchaRequired),
    domain: read(s.domain),
    gatewayUrl: read(s.gatewayUrl),
    publicUrl: read(s.publicUrl),
    defaultPlan,
    trustedProxies: read(s.trustedProxies),
    corsOrigins: read(s.corsOrigins),
    rateLimits: Object.freeze({
      tenantPerMinute: read(s.tenantPerMinute),
      anonymousPerMinute: read(s.anonymousPerMinute),
      loginPerMinute: read(s.loginPerMinute),
      createsPerSecond: read(s.createsPerSecond),
      refusalDelayMs: read(s.refusalDelayMs),
    }),
    cpuOvercommit: read(s.cpuOvercommit),
    hostTimeoutSeconds: read(s.hostTimeoutSeconds),
    publicLabels: read(s.publicLabels),
    rolloutTimeoutSeconds: read(s.rolloutTimeoutSeconds),
    maxRestarts: read(s.maxRestarts),
    moveDrainSeconds: read(s.moveDrainSeconds),
    idleSeconds: read(s.idleSeconds),
    requestsPerReplica: read(s.requestsPerReplica),
    dnsServers: read(s.dnsServers),
    acmeDirectory: read(s.acmeDirectory),
    acmeEmail: read(s.acmeEmail),
    acmeCa: read(s.acmeCa),
    streamsPerUser: read(s.streamsPerUser),
    storageNetworks: read(s.storageNetworks),
    ipv6Prefix: read(s.ipv6Prefix),
    guestNetwork: read(s.guestNetwork),
    logDays: read(s.logDays),
    auditRetentionDays: read(s.auditRetentionDays),
    historyDays: read(s.historyDays),
    auditHeadsFile: read(s.auditHeadsFile),
    smtpUrl: read(s.smtpUrl),
    mailFrom: read(s.mailFrom),
    billing,
    databases,
    registry: read(s.registry),
    registryUrl: read(s.registryUrl),
    tcpPorts: read(s.tcpPorts),
    tcpTlsPort: read(s.tcpTlsPort),
    buildTimeoutMinutes: read(s.buildTimeoutMinutes),
    sourceDir: read(s.sourceDir),
    privateGitHosts: read(s.privateGitHosts),
    previews: read(s.previews),
    prices: read(s.usagePrices),
    budgetGraceHours: read(s.budgetGraceHours),
    scm: readScm(read, faults),
  })
  if (faults.length > 0)
    throw new Error(`The configuration has ${faults.length} fault(s):\n  - ${faults.join('\n  - ')}`)
  return config
}
