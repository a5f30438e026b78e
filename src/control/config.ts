/**
 * The control plane's configuration: one frozen object, parsed once at start, all faults reported together. Nothing
 * else reads the environment. `settings` is also what `--help` and `docs/operating.md` print.
 */
import { readFileSync } from 'node:fs'
import { formatCidr, parseCidr } from '../lib/cidr.ts'

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
  }
  readonly cpuOvercommit: number
  /** A host that has been silent for longer is suspected. */
  readonly hostTimeoutSeconds: number
  /** How long a rollout may take before it has failed. */
  readonly rolloutTimeoutSeconds: number
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
  /** Extra networks (CIDR) that may call /re-attach and /validate, besides loopback. */
  readonly storageNetworks: readonly string[]
  /** What projects get their /64 of; undefined: the random one in the database. */
  readonly ipv6Prefix: string | undefined
  /** IPv4 network whose /20s the hosts of the mesh get for their guests. */
  readonly guestNetwork: string
  /** 0 keeps the audit log for ever. */
  readonly auditRetentionDays: number
  /** `smtp://user:password@host:587` or `smtps://...`; undefined: no e-mail is sent. */
  readonly smtpUrl: string | undefined
  readonly mailFrom: string
  readonly billing: BillingConfig
  readonly databases: DatabaseConfig
  /** `registry/path` that built images are pushed to; empty: they stay on the one host there is. */
  readonly registry: string
  readonly buildTimeoutMinutes: number
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
  /** Page servers, besides node 1, that may attach again. */
  readonly storageNodes: readonly number[]
  /** Instead of coming from a known network. */
  readonly storageSecret: string
  /** How people reach the SSH bastion of the gateways. */
  readonly sshHost: string
  readonly sshPort: number
  readonly backupHours: number
  readonly backupsKept: number
  readonly drillHours: number
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

interface Setting<T> {
  readonly env: string
  readonly fallback: T
  readonly help: string
  readonly parse: (text: string) => T
}

const whole =
  (min: number, max = Number.MAX_SAFE_INTEGER) =>
  (text: string) => {
    const n = Number(text)
    if (!Number.isInteger(n) || n < min || n > max) throw new Error(`must be a whole number from ${min} to ${max}`)
    return n
  }
const flag = (text: string) => {
  if (['1', 'true', 'yes', 'on'].includes(text.toLowerCase())) return true
  if (['0', 'false', 'no', 'off'].includes(text.toLowerCase())) return false
  throw new Error('must be true or false')
}
const list = (text: string) =>
  text
    .split(',')
    .map(item => item.trim())
    .filter(item => item !== '')
const word = (text: string) => text.trim()
const url = (text: string) => {
  if (!URL.canParse(text)) throw new Error('must be a URL such as http://localhost:7070')
  return text.replace(/\/$/, '')
}
const imagePath = (text: string) => {
  if (text !== '' && !/^[a-z0-9.-]+(:\d{1,5})?(\/[a-z0-9._-]+)*$/.test(text))
    throw new Error('must be a registry and a path such as registry.example:5000/apps')
  return text
}
const prices = (text: string): UsagePrices => {
  const found = { vcpu_hour: 0, gib_hour: 0, storage_gb_month: 0, egress_gb: 0 }
  for (const pair of list(text)) {
    const [name = '', cents] = pair.split('=')
    if (!Object.hasOwn(found, name) || !(Number(cents) >= 0))
      throw new Error('must be like vcpu_hour=1.2,gib_hour=0.6,storage_gb_month=8,egress_gb=5')
    Object.assign(found, { [name]: Number(cents) })
  }
  return Object.freeze({
    ...{ vcpuHour: found.vcpu_hour, gibHour: found.gib_hour },
    ...{ storageGbMonth: found.storage_gb_month, egressGb: found.egress_gb },
  })
}
const pem = (text: string) => {
  const key = text.includes('-----BEGIN') ? text.replaceAll('\\n', '\n') : Buffer.from(text, 'base64').toString('utf8')
  if (!key.includes('PRIVATE KEY-----')) throw new Error('must be a PEM private key, or one as base64')
  return key
}
const plan = (text: string) => {
  if (!['free', 'pro', 'business', 'unlimited'].includes(text))
    throw new Error('must be free, pro, business or unlimited')
  return text
}
const billingProvider = (text: string): BillingConfig['provider'] => {
  if (text === 'none' || text === 'sandbox' || text === 'polar' || text === 'stripe') return text
  throw new Error('must be none, sandbox, polar or stripe')
}
const databaseBackend = (text: string): DatabaseConfig['backend'] => {
  if (text === 'volume' || text === 'neon') return text
  throw new Error('must be volume or neon')
}
const ipv6Prefix = (text: string) => {
  const cidr = parseCidr(text)
  if (cidr?.family !== 6 || cidr.prefix < 16 || cidr.prefix > 60)
    throw new Error('must be an IPv6 prefix of /16 to /60, such as fd12:3456:789a::/48')
  return formatCidr(cidr)
}
const guestNetwork = (text: string) => {
  const cidr = parseCidr(text)
  if (cidr?.family !== 4 || cidr.prefix < 8 || cidr.prefix > 19)
    throw new Error('must be an IPv4 network of /8 to /19, such as 10.192.0.0/10')
  return formatCidr(cidr)
}
const planPairs = (text: string) =>
  list(text).map(pair => {
    const [product, name, ...rest] = pair.split('=')
    if (!product || !name || rest.length > 0) throw new Error('must be product=plan, separated by commas')
    return [product, plan(name)] as const
  })

/** One secret a line, newest first. */
const linesOf = (file: string) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '')

const setting = <T>(env: string, fallback: T, parse: (text: string) => T, help: string): Setting<T> => ({
  env,
  fallback,
  parse,
  help,
})

export const controlSettings = {
  accessTokenTtlSeconds: setting('ACCESS_TOKEN_TTL_SECS', 86_400, whole(60), 'life of a session JWT, seconds'),
  refreshTokenTtlSeconds: setting('REFRESH_TOKEN_TTL_SECS', 30 * 86_400, whole(60), 'life of a refresh token, seconds'),
  captchaRequired: setting(
    'MOTE_CAPTCHA',
    true,
    flag,
    'ask for a captcha at registration (switch off for development only)',
  ),
  domain: setting('MOTE_DOMAIN', 'localhost', word, 'apps answer at <app>-<project>.<domain>'),
  gatewayUrl: setting('MOTE_GATEWAY_URL', 'http://localhost:7080', url, 'how people reach the gateway (for links)'),
  publicUrl: setting('MOTE_PUBLIC_URL', 'http://localhost:7070', url, 'how people reach the API (for links)'),
  defaultPlan: setting('MOTE_DEFAULT_PLAN', 'unlimited', plan, 'plan of new projects: free, pro, business, unlimited'),
  trustedProxies: setting<readonly string[]>(
    'MOTE_TRUSTED_PROXIES',
    [],
    list,
    'addresses or CIDRs whose X-Forwarded-For is believed',
  ),
  corsOrigins: setting<readonly string[]>(
    'MOTE_CORS_ORIGINS',
    [],
    list,
    'browser origins other than our own that may call the API',
  ),
  tenantPerMinute: setting('MOTE_RATE_TENANT', 600, whole(1), 'requests per minute and project'),
  anonymousPerMinute: setting(
    'MOTE_RATE_ANONYMOUS',
    120,
    whole(1),
    'requests per minute and address without a credential',
  ),
  loginPerMinute: setting('MOTE_RATE_LOGIN', 10, whole(1), 'login and register tries per minute, address and e-mail'),
  createsPerSecond: setting('MOTE_RATE_CREATES', 5, whole(1), 'creating requests per second and project'),
  cpuOvercommit: setting('MOTE_CPU_OVERCOMMIT', 8, whole(1, 64), 'vCPUs promised for each real one'),
  hostTimeoutSeconds: setting('MOTE_HOST_TIMEOUT', 15, whole(3), 'seconds of silence after which a host is suspected'),
  rolloutTimeoutSeconds: setting(
    'MOTE_ROLLOUT_TIMEOUT',
    300,
    whole(5),
    'seconds a new deployment has to become healthy',
  ),
  maxRestarts: setting(
    'MOTE_MAX_RESTARTS',
    5,
    whole(0, 100),
    'restarts of a crashing app before its deployment has failed',
  ),
  idleSeconds: setting(
    'MOTE_IDLE_SECONDS',
    300,
    // Gateways report every 2 s: below, an app would fall asleep between two requests.
    whole(10),
    'seconds without a request after which an app with min_replicas 0 goes to sleep, at least 10',
  ),
  requestsPerReplica: setting(
    'MOTE_REQUESTS_PER_REPLICA',
    0,
    whole(0),
    'open requests for each replica above which the autoscaler adds one; 0: CPU and memory only',
  ),
  streamsPerUser: setting('MOTE_STREAMS_PER_USER', 50, whole(1), 'open event streams per user'),
  dnsServers: setting<readonly string[]>(
    'MOTE_DNS_SERVERS',
    [],
    list,
    'name servers (address or address:port) for custom domains; those of the system when empty',
  ),
  acmeDirectory: setting(
    'MOTE_ACME_DIRECTORY',
    '',
    url,
    'certificate authority for custom domains, such as https://acme-v02.api.letsencrypt.org/directory; none when empty',
  ),
  acmeEmail: setting('MOTE_ACME_EMAIL', '', word, 'address the certificate authority may write to'),
  acmeCa: setting('MOTE_ACME_CA', '', word, 'PEM file that a private certificate authority is checked by'),
  storageNetworks: setting<readonly string[]>(
    'MOTE_STORAGE_NETWORKS',
    [],
    list,
    'CIDRs, besides loopback, that may call /re-attach and /validate',
  ),
  ipv6Prefix: setting<string | undefined>(
    'MOTE_IPV6_PREFIX',
    undefined,
    ipv6Prefix,
    'IPv6 prefix (/16 to /60) of the private networks; a random unique local /48 when empty',
  ),
  guestNetwork: setting(
    'MOTE_GUEST_NETWORK',
    '10.192.0.0/10',
    guestNetwork,
    'IPv4 network (/8 to /19) of which each host of the mesh gets a /20 for its VMs; nothing else in it may be in use',
  ),
  auditRetentionDays: setting(
    'MOTE_AUDIT_RETENTION_DAYS',
    0,
    whole(0, 36_500),
    'days the audit log is kept; 0 keeps it for ever',
  ),
  smtpUrl: setting<string | undefined>(
    'MOTE_SMTP_URL',
    undefined,
    url,
    'mail server: smtp://user:password@host:587 or smtps://...; empty sends no e-mail',
  ),
  mailFrom: setting('MOTE_MAIL_FROM', 'Mote <mote@localhost>', word, 'sender of e-mails'),
  registry: setting(
    'MOTE_REGISTRY',
    '',
    imagePath,
    'where built images are pushed, for example registry.example:5000/apps; needed with several hosts',
  ),
  buildTimeoutMinutes: setting('MOTE_BUILD_TIMEOUT', 20, whole(1, 240), 'minutes a build may take'),
  privateGitHosts: setting(
    'MOTE_GIT_PRIVATE_HOSTS',
    false,
    flag,
    'repositories at private addresses and over plain http may be built',
  ),
  usagePrices: setting<UsagePrices>(
    'MOTE_USAGE_PRICES',
    { vcpuHour: 0, gibHour: 0, storageGbMonth: 0, egressGb: 0 },
    prices,
    'cents for what is used: vcpu_hour=1.2,gib_hour=0.6,storage_gb_month=8,egress_gb=5',
  ),
  budgetGraceHours: setting(
    'MOTE_BUDGET_GRACE_HOURS',
    24,
    whole(0, 720),
    'hours between a budget that is used up and the sleep of its apps',
  ),
  previews: setting('MOTE_PREVIEWS', true, flag, 'pull requests get an app of their own while they are open'),
  githubAppId: setting('MOTE_GITHUB_APP_ID', '', word, 'id of the GitHub App; empty: no source host integration'),
  githubAppSlug: setting('MOTE_GITHUB_APP_SLUG', '', word, 'name of the GitHub App in its address'),
  githubPrivateKey: setting('MOTE_GITHUB_PRIVATE_KEY', '', pem, 'private key of the GitHub App: PEM, or PEM as base64'),
  githubWebhookSecret: setting(
    'MOTE_GITHUB_WEBHOOK_SECRET',
    '',
    word,
    'secret that signs the webhooks of the GitHub App',
  ),
  githubUrl: setting('MOTE_GITHUB_URL', 'https://github.com', url, 'web address of the source host'),
  githubApiUrl: setting(
    'MOTE_GITHUB_API_URL',
    'https://api.github.com',
    url,
    'API of the source host; https://<host>/api/v3 for GitHub Enterprise Server',
  ),
  billingProvider: setting<BillingConfig['provider']>(
    'MOTE_BILLING_PROVIDER',
    'none',
    billingProvider,
    'none, sandbox, polar or stripe; with any but none the default plan is free unless set',
  ),
  billingApiKey: setting('MOTE_BILLING_API_KEY', '', word, 'access token of the billing provider'),
  billingApiUrl: setting<string | undefined>(
    'MOTE_BILLING_API_URL',
    undefined,
    url,
    'API of the billing provider, where it is not the production one',
  ),
  billingWebhookSecrets: setting<readonly string[]>(
    'MOTE_BILLING_WEBHOOK_SECRETS',
    [],
    list,
    'secrets that sign billing webhooks; several while rotating',
  ),
  billingPlans: setting<readonly (readonly [string, string])[]>(
    'MOTE_BILLING_PLANS',
    [],
    planPairs,
    'plans of products, product=plan; others by their metadata mote_plan',
  ),
  billingDefaultProduct: setting<string | undefined>(
    'MOTE_BILLING_DEFAULT_PRODUCT',
    undefined,
    word,
    'product of a checkout that names none; the cheapest when empty',
  ),
  billingRedirectHosts: setting<readonly string[]>(
    'MOTE_BILLING_REDIRECT_HOSTS',
    [],
    list,
    'hosts of checkout and portal pages besides those of the provider',
  ),
  databaseVersions: setting<readonly number[]>(
    'MOTE_POSTGRES_VERSIONS',
    [15],
    text => list(text).map(whole(14, 17)),
    'major versions of PostgreSQL on offer, the default one first; each needs: mote image build postgres',
  ),
  databaseBackend: setting<DatabaseConfig['backend']>(
    'MOTE_DATABASE_BACKEND',
    'volume',
    databaseBackend,
    'where new databases keep their data: volume (a disk of their own) or neon (a page server)',
  ),
  pageserverUrl: setting('MOTE_PAGESERVER_URL', '', url, 'management API of the page server, with neon'),
  neonImage: setting('MOTE_NEON_IMAGE', '', word, 'image of a VM that works on a page server, with neon'),
  storageNodes: setting<readonly number[]>(
    'MOTE_STORAGE_NODES',
    [],
    text => list(text).map(whole(0)),
    'ids of page servers, besides 1, that may attach again',
  ),
  storageSecret: setting(
    'MOTE_STORAGE_SECRET',
    '',
    word,
    'bearer token for /re-attach and /validate from other networks',
  ),
  sshHost: setting('MOTE_SSH_HOST', 'localhost', word, 'how people reach the SSH bastion'),
  sshPort: setting('MOTE_SSH_PORT', 7022, whole(0, 65_535), 'port of the SSH bastion'),
  backupHours: setting('MOTE_DATABASE_BACKUP_HOURS', 24, whole(1, 8760), 'hours between whole backups of a database'),
  backupsKept: setting('MOTE_DATABASE_BACKUPS_KEPT', 7, whole(1, 1000), 'whole backups of a database that are kept'),
  drillHours: setting(
    'MOTE_DATABASE_DRILL_HOURS',
    168,
    whole(0, 8760),
    'hours between proofs that the newest backup of a database can be restored; 0: never',
  ),
  billingGraceDays: setting('MOTE_BILLING_GRACE_DAYS', 7, whole(0, 365), 'days the plan stays after a payment failed'),
} as const

export const secretHelp =
  'MOTE_SECRET_KEY: at least 32 random characters; MOTE_SECRET_KEYS: comma-separated, newest first, while rotating. ' +
  'With --data the all-in-one makes one by itself in <data>/secret.key (one a line, newest first).'

function readScm(read: <T>(setting: Setting<T>) => T, faults: string[]): ScmConfig | undefined {
  const s = controlSettings
  const appId = read(s.githubAppId)
  if (appId === '') return undefined
  const needed = [s.githubAppSlug, s.githubPrivateKey, s.githubWebhookSecret] as const
  for (const one of needed) if (read(one) === '') faults.push(`${one.env} is missing: ${one.help}`)
  const [slug, privateKey, webhookSecret] = [read(needed[0]), read(needed[1]), read(needed[2])]
  return Object.freeze({
    appId,
    slug,
    privateKey,
    webhookSecret,
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
    }),
    cpuOvercommit: read(s.cpuOvercommit),
    hostTimeoutSeconds: read(s.hostTimeoutSeconds),
    rolloutTimeoutSeconds: read(s.rolloutTimeoutSeconds),
    maxRestarts: read(s.maxRestarts),
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
    }),
    registry: read(s.registry),
    buildTimeoutMinutes: read(s.buildTimeoutMinutes),
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
