/** Reads the groups of settings that depend on each other. An invalid value adds a message to `faults`. */
import { readFileSync } from 'node:fs'
import type { BillingConfig, DatabaseConfig, ScmConfig } from './config.ts'
import { list, type Setting } from './setting.ts'
import { controlSettings, secretHelp } from './settings.ts'

export type Environment = Readonly<Record<string, string | undefined>>
type Read = <T>(setting: Setting<T>) => T

/** Reads a file with one secret per line, newest first. */
const linesOf = (file: string) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '')

export function readScm(read: Read, faults: string[]): ScmConfig | undefined {
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
 * Returns a function that reads a setting. For an invalid value it adds an entry to `faults` and returns the default.
 */
export const settingReader =
  (env: Environment, faults: string[]): Read =>
  <T>(s: Setting<T>): T => {
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

export function readSecrets(
  env: Environment,
  fallbackSecretFile: string | undefined,
  faults: string[],
): readonly string[] {
  const secretText = env.MOTE_SECRET_KEYS ?? env.MOTE_SECRET_KEY
  const secrets = secretText ? list(secretText) : fallbackSecretFile ? linesOf(fallbackSecretFile) : []
  if (secrets.length === 0) faults.push(`no secret is configured. ${secretHelp}`)
  for (const secret of secrets)
    if (secret.length < 32)
      faults.push('a secret key is shorter than 32 characters; make one with: openssl rand -hex 32')
  return secrets
}

export function readBilling(read: Read, faults: string[]): BillingConfig {
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
  return billing
}

export function readDatabases(read: Read, faults: string[]): DatabaseConfig {
  const s = controlSettings
  const backend = read(s.databaseBackend)
  if (backend === 'neon')
    for (const one of [s.pageserverUrl, s.neonImage])
      if (read<string>(one) === '') faults.push(`${one.env} is missing: ${one.help}`)
  return Object.freeze({
    versions: read(s.databaseVersions),
    backend,
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
  })
}
