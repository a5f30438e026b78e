/**
 * The control plane's configuration: one frozen object, parsed once at start, all faults reported together. Nothing
 * else reads the environment. The settings themselves: settings.ts.
 */
import { readFileSync } from 'node:fs'
import { list, type Setting } from './setting.ts'
import { controlSettings, secretHelp } from './settings.ts'

export interface ControlConfig {
  /** The first encrypts and signs, the rest still verify. */
  readonly secrets: readonly string[]
  readonly accessTokenTtlSeconds: number
  readonly refreshTokenTtlSeconds: number
  readonly captchaRequired: boolean
  /** Apps answer at `<app>-<project>.<domain>`. */
  readonly domain: string
  /** How people reach the gateway, for links: scheme and, where not the default, port. */
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
  /** A host that has been silent for longer is suspected. */
  readonly hostTimeoutSeconds: number
  /** How long a rollout may take before it has failed. */
  readonly rolloutTimeoutSeconds: number
  /** How long requests under way may take before a VM moves. */
  readonly moveDrainSeconds: number
  readonly maxRestarts: number
  /** An app that may scale to zero does so after this long without a request. */
  readonly idleSeconds: number
  /** Open requests for each replica above which the autoscaler adds one; 0: it looks at CPU and memory only. */
  readonly requestsPerReplica: number
  readonly streamsPerUser: number
  /** `address` or `address:port` that custom domains are looked up at; empty: those of the system. */
  readonly dnsServers: readonly string[]
  /** Directory URL of a certificate authority (RFC 8555); empty: none. */
  readonly acmeDirectory: string
  readonly acmeEmail: string
  /** File with the certificate that the authority's own API is checked by; empty: those of the system. */
  readonly acmeCa: string
  /** Networks (CIDR) that may call /re-attach and /validate; empty: loopback, where the API is there too. */
  readonly storageNetworks: readonly string[]
  /** What projects get their /64 of; undefined: the random one in the database. */
  readonly ipv6Prefix: string | undefined
  /** IPv4 network whose /20s the hosts of the mesh get for their guests. */
  readonly guestNetwork: string
  /** 0 keeps the audit log for ever. */
  readonly auditRetentionDays: number
  /** Where signed ends of the audit log are appended; empty: only in the log. */
  readonly auditHeadsFile: string
  /** `smtp://user:password@host:587` or `smtps://...`; undefined: no e-mail is sent. */
  readonly smtpUrl: string | undefined
  readonly mailFrom: string
  readonly billing: BillingConfig
  readonly databases: DatabaseConfig
  /** `registry/path` that built images are pushed to; empty: they stay on the one host there is. */
  readonly registry: string
  readonly buildTimeoutMinutes: number
  /** Sources that people send are kept in it until they are built; empty: none are taken. */
  readonly sourceDir: string
  /** Repositories at private addresses and without TLS may be built. */
  readonly privateGitHosts: boolean
  /** Cents for each unit of what is used. */
  readonly prices: UsagePrices
  readonly budgetGraceHours: number
  /** Pull requests of a repository's own branches get an app each. */
  readonly previews: boolean
  /** Undefined: no integration with a source host. */
  readonly scm: ScmConfig | undefined
}

export interface UsagePrices {
  readonly vcpuHour: number
  readonly gibHour: number
  readonly storageGbMonth: number
  readonly egressGb: number
}

/** A GitHub App, of github.com or of a GitHub Enterprise Server. */
export interface ScmConfig {
  readonly appId: string
  /** Its name in addresses: `<web>/apps/<slug>`. */
  readonly slug: string
  /** PEM. */
  readonly privateKey: string
  readonly webhookSecret: string
  /** OAuth credentials of the app, which prove who installed it. */
  readonly clientId: string
  readonly clientSecret: string
  readonly webUrl: string
  readonly apiUrl: string
}

export interface DatabaseConfig {
  /** Major versions of PostgreSQL whose image hosts have; the first is the default. */
  readonly versions: readonly number[]
  readonly backend: 'volume' | 'neon'
  /** Management API of the page server. Only with `neon`. */
  readonly pageserverUrl: string
  /** Image of a VM that works on a page server. */
  readonly neonImage: string
  /** Page servers besides node 1. Without a URL one may attach again, and gets no new tenants. */
  readonly storageNodes: readonly { readonly id: number; readonly url: string }[]
  /** Instead of coming from a known network. */
  readonly storageSecret: string
  /** How people reach the SSH bastion of the gateways. */
  readonly sshHost: string
  readonly sshPort: number
  readonly backupHours: number
  readonly backupsKept: number
  readonly drillHours: number
  /** After a snapshot, or the newest branch of it. */
  readonly spareMinutes: number
}

export interface BillingConfig {
  readonly provider: 'none' | 'sandbox' | 'polar' | 'stripe'
  readonly apiKey: string
  /** Instead of the provider's own; undefined: production. */
  readonly apiUrl: string | undefined
  /** All of them verify, while rotating. */
  readonly webhookSecrets: readonly string[]
  /** Plan by product id; without an entry the product's metadata `mote_plan` says it. */
  readonly plans: ReadonlyMap<string, string>
  readonly defaultProduct: string | undefined
  /** Hosts we may send a browser to, besides the provider's own. */
  readonly redirectHosts: readonly string[]
  readonly graceDays: number
}

/** One secret a line, newest first. */
const linesOf = (file: string) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '')
function readScm(read: <T>(setting: Setting<T>) => T, faults: string[]): ScmConfig | undefined {
  const s = controlSettings
  const appId = read(s.githubAppId)
  if (appId === '') return undefined
  const needed = [
    s.githubAppSlug,
    s.githubPrivateKey,
    s.githubWebhookSecret,
    s.githubClientId,
    s.githubClientSecret,
  ] as const
  for (const one of needed) if (read(one) === '') faults.push(`${one.env} is missing: ${one.help}`)
  return Object.freeze({
    appId,
    slug: read(s.githubAppSlug),
    privateKey: read(s.githubPrivateKey),
    webhookSecret: read(s.githubWebhookSecret),
    clientId: read(s.githubClientId),
    clientSecret: read(s.githubClientSecret),
    webUrl: read(s.githubUrl),
    apiUrl: read(s.githubApiUrl),
  })
}

/**
 * @param env the process environment (or a test's)
 * @param fallbackSecretFile read when no secret is configured: the all-in-one's own key file
 * @throws Error that lists every fault at once
 */
export function parseControlConfig(
  env: Readonly<Record<string, string | undefined>>,
  fallbackSecretFile?: string,
): ControlConfig {
  const faults: string[] = []
  const read = <T>(s: Setting<T>): T => {
    const text = env[s.env]
    if (text === undefined || text === '') return s.fallback
    try {
      return s.parse(text)
    } catch (cause) {
      faults.push(
        `${s.env}="${text.replace(/\/\/[^@/]*@/, '//***@')}": ${cause instanceof Error ? cause.message : 'invalid'} (${s.help})`,
      )
      return s.fallback
    }
  }
  const secretText = env.MOTE_SECRET_KEYS ?? env.MOTE_SECRET_KEY
  const secrets = secretText ? list(secretText) : fallbackSecretFile ? linesOf(fallbackSecretFile) : []
  if (secrets.length === 0) faults.push(`no secret is configured. ${secretHelp}`)
  for (const secret of secrets)
    if (secret.length < 32)
      faults.push('a secret key is shorter than 32 characters; make one with: openssl rand -hex 32')

  const s = controlSettings
  const billing = Object.freeze({
    provider: read(s.billingProvider),
    apiKey: read(s.billingApiKey),
    apiUrl: read(s.billingApiUrl),
    webhookSecrets: read(s.billingWebhookSecrets),
    plans: new Map(read(s.billingPlans)),
    defaultProduct: read(s.billingDefaultProduct),
    redirectHosts: read(s.billingRedirectHosts),
    graceDays: read(s.billingGraceDays),
  })
  if (billing.provider === 'polar' || billing.provider === 'stripe') {
    if (billing.apiKey === '') faults.push(`MOTE_BILLING_API_KEY is missing: ${s.billingApiKey.help}`)
    if (billing.webhookSecrets.length === 0)
      faults.push(`MOTE_BILLING_WEBHOOK_SECRETS is missing: ${s.billingWebhookSecrets.help}`)
  }
  if (read(s.databaseBackend) === 'neon')
    for (const one of [s.pageserverUrl, s.neonImage])
      if (read<string>(one) === '') faults.push(`${one.env} is missing: ${one.help}`)
  // Where plans are sold, nobody gets the largest one for nothing.
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
    auditRetentionDays: read(s.auditRetentionDays),
    auditHeadsFile: read(s.auditHeadsFile),
    smtpUrl: read(s.smtpUrl),
    mailFrom: read(s.mailFrom),
    billing,
    databases: Object.freeze({
      versions: read(s.databaseVersions),
      backend: read(s.databaseBackend),
      pageserverUrl: read(s.pageserverUrl),
      neonImage: read(s.neonImage),
      storageNodes: read(s.storageNodes),
      storageSecret: read(s.storageSecret),
      sshHost: read(s.sshHost),
      sshPort: read(s.sshPort),
      backupHours: read(s.backupHours),
      backupsKept: read(s.backupsKept),
      drillHours: read(s.drillHours),
      spareMinutes: read(s.spareMinutes),
    }),
    registry: read(s.registry),
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
