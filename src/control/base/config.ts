/**
 * The control plane's configuration: one frozen object, parsed once at start; all errors are reported together. Only
 * this file and config-parts.ts read the environment. settings.ts lists the settings.
 */
import type { PortRange } from '../../lib/port-range.ts'
import { type Environment, readBilling, readDatabases, readScm, readSecrets, settingReader } from './config-parts.ts'
import { controlSettings } from './settings.ts'

export interface ControlConfig {
  /**
   * Secrets of the installation. The first one is used to encrypt and sign; all of them are used to decrypt and verify.
   */
  readonly secrets: readonly string[]
  readonly accessTokenTtlSeconds: number
  readonly refreshTokenTtlSeconds: number
  readonly captchaRequired: boolean
  /** Domain of the apps, which are served at `<app>-<project>.<domain>`. */
  readonly domain: string
  /** Public URL of the gateway, for links to apps: the scheme, and the port unless it is the scheme's default. */
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
  /** Time without a heartbeat after which a host is suspected to be down. */
  readonly hostTimeoutSeconds: number
  /** Names of the host labels that users may see, and may use in their apps' settings. */
  readonly publicLabels: readonly string[]
  /** Time within which a rollout must succeed; otherwise it fails. */
  readonly rolloutTimeoutSeconds: number
  /** Time that open requests to a VM have to finish before the VM moves. */
  readonly moveDrainSeconds: number
  readonly maxRestarts: number
  /** Time without requests after which an app that may scale to zero does so. */
  readonly idleSeconds: number
  /**
   * Number of open requests per replica above which the autoscaler adds a replica; 0: the autoscaler uses CPU and
   * memory only.
   */
  readonly requestsPerReplica: number
  readonly streamsPerUser: number
  /**
   * Name servers for the DNS checks of custom domains, each `address` or `address:port`; empty: the system's name
   * servers.
   */
  readonly dnsServers: readonly string[]
  /** Directory URL of the certificate authority (RFC 8555); empty: no certificates are requested. */
  readonly acmeDirectory: string
  readonly acmeEmail: string
  /** File with CA certificates to verify the certificate authority's API; empty: the system's CA certificates. */
  readonly acmeCa: string
  /**
   * Networks (CIDR) of the page servers that may call /re-attach and /validate. Empty: loopback, if the API listens on
   * loopback.
   */
  readonly storageNetworks: readonly string[]
  /** IPv6 prefix from which each project gets a /64; undefined: a random prefix, which is stored in the database. */
  readonly ipv6Prefix: string | undefined
  /** IPv4 network from which each host of the mesh gets a /20 for its guests. */
  readonly guestNetwork: string
  /** Retention of the log lines of apps, in days. */
  readonly logDays: number
  /** Retention of the audit log in days; 0: forever. */
  readonly auditRetentionDays: number
  readonly historyDays: number
  /** File to which signed heads of the audit log are appended; empty: they are only logged. */
  readonly auditHeadsFile: string
  /** Mail server: `smtp://user:password@host:587` or `smtps://...`; undefined: no e-mail is sent. */
  readonly smtpUrl: string | undefined
  readonly mailFrom: string
  readonly billing: BillingConfig
  readonly databases: DatabaseConfig
  /** Registry and path to which built images are pushed; empty: they stay on the host, which must be the only one. */
  readonly registry: string
  /** Public address of the installation's own image registry; empty: the installation has none. */
  readonly registryUrl: string
  /** Ports of the gateways that TCP services can get; undefined: none. */
  readonly tcpPorts: PortRange | undefined
  /** Port of the gateways that all TCP services with TLS share; undefined: there are no such services. */
  readonly tcpTlsPort: number | undefined
  readonly buildTimeoutMinutes: number
  /** Directory that stores uploaded sources until they are built; empty: uploads are refused. */
  readonly sourceDir: string
  /** True if builds may read repositories with private addresses or without TLS. */
  readonly privateGitHosts: boolean
  /** Prices of usage, in cents. */
  readonly prices: UsagePrices
  readonly budgetGraceHours: number
  /** True if each pull request from a branch of the same repository gets a preview app. */
  readonly previews: boolean
  /** Integration with GitHub; undefined: no integration is configured. */
  readonly scm: ScmConfig | undefined
}

export interface UsagePrices {
  readonly vcpuHour: number
  readonly gibHour: number
  readonly storageGbMonth: number
  readonly egressGb: number
}

/**
 * The GitHub App (an integration registered on github.com or a GitHub Enterprise Server) through which the installation
 * reads repositories.
 */
export interface ScmConfig {
  readonly appId: string
  /** Name of the GitHub App in URLs: users install it at `<webUrl>/apps/<slug>`. */
  readonly slug: string
  /** Private key of the GitHub App, in PEM. */
  readonly privateKey: string
  readonly webhookSecret: string
  /** OAuth credentials of the GitHub App, with which the user who installed it is verified. */
  readonly clientId: string
  readonly clientSecret: string
  readonly webUrl: string
  readonly apiUrl: string
}

export interface DatabaseConfig {
  /** Major versions of PostgreSQL that users may choose; the first is the default. */
  readonly versions: readonly number[]
  readonly backend: 'volume' | 'neon'
  /** URL of the page server's management API; only used with the backend `neon`. */
  readonly pageserverUrl: string
  /** Image of the VM of a database that stores its data on a page server. */
  readonly neonImage: string
  /**
   * Page servers in addition to the one with id 1. A page server without a URL may call /re-attach, but gets no new
   * databases.
   */
  readonly storageNodes: readonly { readonly id: number; readonly url: string }[]
  /** Bearer token with which page servers outside of `storageNetworks` authenticate. */
  readonly storageSecret: string
  /** Public address of the gateways' SSH bastion. */
  readonly sshHost: string
  readonly sshPort: number
  readonly backupHours: number
  readonly backupsKept: number
  readonly drillHours: number
  /**
   * Time for which a spare VM is held ready for a database after a snapshot was taken or a branch was created from one.
   */
  readonly spareMinutes: number
}

export interface BillingConfig {
  readonly provider: 'none' | 'sandbox' | 'polar' | 'stripe'
  readonly apiKey: string
  /** URL of the billing provider's API; undefined: the provider's production URL. */
  readonly apiUrl: string | undefined
  /** Secrets with which the billing provider signs webhooks. All of them are accepted, so that they can be rotated. */
  readonly webhookSecrets: readonly string[]
  /**
   * Plan of each billing product, by product id. Products that are not listed have their plan in their metadata
   * (`mote_plan`).
   */
  readonly plans: ReadonlyMap<string, string>
  readonly defaultProduct: string | undefined
  /** Hosts to which browsers may be redirected for payments, in addition to the billing provider's own. */
  readonly redirectHosts: readonly string[]
  readonly graceDays: number
}

/**
 * Parses the configuration.
 * @param env the process environment (or a test's)
 * @param fallbackSecretFile read if no secret is configured: the key file of the all-in-one server
 * @throws Error that lists every problem
 */
export function parseControlConfig(env: Environment, fallbackSecretFile?: string): ControlConfig {
  const faults: string[] = []
  const read = settingReader(env, faults)
  const s = controlSettings
  const secrets = readSecrets(env, fallbackSecretFile, faults)
  const billing = readBilling(read, faults)
  const databases = readDatabases(read, faults)
  // With billing enabled, new projects have the plan `free` by default, because the setting's own default is the
  // largest plan.
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
