/**
 * The control plane's configuration: one frozen object, parsed once at start, all faults reported together. Nothing
 * else reads the environment. `settings` is also what `--help` and `docs/operating.md` print.
 */
import { readFileSync } from 'node:fs'

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
  readonly streamsPerUser: number
  /** Extra networks (CIDR) that may call /re-attach and /validate, besides loopback. */
  readonly storageNetworks: readonly string[]
  /** 0 keeps the audit log for ever. */
  readonly auditRetentionDays: number
  /** `smtp://user:password@host:587` or `smtps://...`; undefined: no e-mail is sent. */
  readonly smtpUrl: string | undefined
  readonly mailFrom: string
  readonly billing: BillingConfig
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
const plan = (text: string) => {
  if (!['free', 'pro', 'business', 'unlimited'].includes(text))
    throw new Error('must be free, pro, business or unlimited')
  return text
}
const billingProvider = (text: string): BillingConfig['provider'] => {
  if (text === 'none' || text === 'sandbox' || text === 'polar' || text === 'stripe') return text
  throw new Error('must be none, sandbox, polar or stripe')
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
    whole(1),
    'seconds without a request after which an app with min_replicas 0 goes to sleep',
  ),
  streamsPerUser: setting('MOTE_STREAMS_PER_USER', 50, whole(1), 'open event streams per user'),
  storageNetworks: setting<readonly string[]>(
    'MOTE_STORAGE_NETWORKS',
    [],
    list,
    'CIDRs, besides loopback, that may call /re-attach and /validate',
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
  billingGraceDays: setting('MOTE_BILLING_GRACE_DAYS', 7, whole(0, 365), 'days the plan stays after a payment failed'),
} as const

export const secretHelp =
  'MOTE_SECRET_KEY: at least 32 random characters; MOTE_SECRET_KEYS: comma-separated, newest first, while rotating. ' +
  'With --data the all-in-one makes one by itself in <data>/secret.key (one a line, newest first).'

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
    streamsPerUser: read(s.streamsPerUser),
    storageNetworks: read(s.storageNetworks),
    auditRetentionDays: read(s.auditRetentionDays),
    smtpUrl: read(s.smtpUrl),
    mailFrom: read(s.mailFrom),
    billing,
  })
  if (faults.length > 0)
    throw new Error(`The configuration has ${faults.length} fault(s):\n  - ${faults.join('\n  - ')}`)
  return config
}
