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
  readonly streamsPerUser: number
  /** Extra networks (CIDR) that may call /re-attach and /validate, besides loopback. */
  readonly storageNetworks: readonly string[]
  /** 0 keeps the audit log for ever. */
  readonly auditRetentionDays: number
  /** `smtp://user:password@host:587` or `smtps://...`; undefined: no e-mail is sent. */
  readonly smtpUrl: string | undefined
  readonly mailFrom: string
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

const setting = <T>(env: string, fallback: T, parse: (text: string) => T, help: string): Setting<T> => ({
  env,
  fallback,
  parse,
  help,
})

export const controlSettings = {
  accessTokenTtlSeconds: setting('ACCESS_TOKEN_TTL_SECS', 86_400, whole(60), 'life of a session JWT, seconds'),
  refreshTokenTtlSeconds: setting('REFRESH_TOKEN_TTL_SECS', 30 * 86_400, whole(60), 'life of a refresh token, seconds'),
  captchaRequired: setting('MOTE_CAPTCHA', true, flag, 'ask for a captcha at registration (switch off for development only)'),
  domain: setting('MOTE_DOMAIN', 'localhost', word, 'apps answer at <app>-<project>.<domain>'),
  gatewayUrl: setting('MOTE_GATEWAY_URL', 'http://localhost:7080', url, 'how people reach the gateway (for links)'),
  publicUrl: setting('MOTE_PUBLIC_URL', 'http://localhost:7070', url, 'how people reach the API (for links)'),
  defaultPlan: setting('MOTE_DEFAULT_PLAN', 'unlimited', plan, 'plan of new projects: free, pro, business, unlimited'),
  trustedProxies: setting<readonly string[]>('MOTE_TRUSTED_PROXIES', [], list, 'addresses or CIDRs whose X-Forwarded-For is believed'),
  corsOrigins: setting<readonly string[]>('MOTE_CORS_ORIGINS', [], list, 'browser origins other than our own that may call the API'),
  tenantPerMinute: setting('MOTE_RATE_TENANT', 600, whole(1), 'requests per minute and project'),
  anonymousPerMinute: setting('MOTE_RATE_ANONYMOUS', 120, whole(1), 'requests per minute and address without a credential'),
  loginPerMinute: setting('MOTE_RATE_LOGIN', 10, whole(1), 'login and register tries per minute, address and e-mail'),
  createsPerSecond: setting('MOTE_RATE_CREATES', 5, whole(1), 'creating requests per second and project'),
  cpuOvercommit: setting('MOTE_CPU_OVERCOMMIT', 8, whole(1, 64), 'vCPUs promised for each real one'),
  hostTimeoutSeconds: setting('MOTE_HOST_TIMEOUT', 15, whole(3), 'seconds of silence after which a host is suspected'),
  rolloutTimeoutSeconds: setting('MOTE_ROLLOUT_TIMEOUT', 300, whole(5), 'seconds a new deployment has to become healthy'),
  maxRestarts: setting('MOTE_MAX_RESTARTS', 5, whole(0, 100), 'restarts of a crashing app before its deployment has failed'),
  streamsPerUser: setting('MOTE_STREAMS_PER_USER', 50, whole(1), 'open event streams per user'),
  storageNetworks: setting<readonly string[]>('MOTE_STORAGE_NETWORKS', [], list, 'CIDRs, besides loopback, that may call /re-attach and /validate'),
  auditRetentionDays: setting('MOTE_AUDIT_RETENTION_DAYS', 0, whole(0, 36_500), 'days the audit log is kept; 0 keeps it for ever'),
  smtpUrl: setting<string | undefined>('MOTE_SMTP_URL', undefined, url, 'mail server: smtp://user:password@host:587 or smtps://...; empty sends no e-mail'),
  mailFrom: setting('MOTE_MAIL_FROM', 'Mote <mote@localhost>', word, 'sender of e-mails'),
} as const

export const secretHelp =
  'MOTE_SECRET_KEY: at least 32 random characters; MOTE_SECRET_KEYS: comma-separated, newest first, while rotating. ' +
  'With --data the all-in-one makes one by itself in <data>/secret.key.'

/**
 * @param env the process environment (or a test's)
 * @param fallbackSecretFile read when no secret is configured: the all-in-one's own key file
 * @throws Error that lists every fault at once
 */
export function parseControlConfig(env: Readonly<Record<string, string | undefined>>, fallbackSecretFile?: string): ControlConfig {
  const faults: string[] = []
  const read = <T>(s: Setting<T>): T => {
    const text = env[s.env]
    if (text === undefined || text === '') return s.fallback
    try {
      return s.parse(text)
    } catch (cause) {
      faults.push(`${s.env}="${text.replace(/\/\/[^@/]*@/, '//***@')}": ${cause instanceof Error ? cause.message : 'invalid'} (${s.help})`)
      return s.fallback
    }
  }
  const secretText = env.MOTE_SECRET_KEYS ?? env.MOTE_SECRET_KEY
  const secrets = secretText ? list(secretText) : fallbackSecretFile ? [readFileSync(fallbackSecretFile, 'utf8').trim()] : []
  if (secrets.length === 0) faults.push(`no secret is configured. ${secretHelp}`)
  for (const secret of secrets)
    if (secret.length < 32) faults.push('a secret key is shorter than 32 characters; make one with: openssl rand -hex 32')

  const s = controlSettings
  const config: ControlConfig = Object.freeze({
    secrets,
    accessTokenTtlSeconds: read(s.accessTokenTtlSeconds),
    refreshTokenTtlSeconds: read(s.refreshTokenTtlSeconds),
    captchaRequired: read(s.captchaRequired),
    domain: read(s.domain),
    gatewayUrl: read(s.gatewayUrl),
    publicUrl: read(s.publicUrl),
    defaultPlan: read(s.defaultPlan),
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
    streamsPerUser: read(s.streamsPerUser),
    storageNetworks: read(s.storageNetworks),
    auditRetentionDays: read(s.auditRetentionDays),
    smtpUrl: read(s.smtpUrl),
    mailFrom: read(s.mailFrom),
  })
  if (faults.length > 0) throw new Error(`The configuration has ${faults.length} fault(s):\n  - ${faults.join('\n  - ')}`)
  return config
}
