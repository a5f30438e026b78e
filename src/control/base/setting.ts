/** Defines a setting of the control plane: its environment variable, its default and how its value is parsed. */
import { formatCidr, parseCidr } from '../../lib/cidr.ts'
import type { BillingConfig, DatabaseConfig, UsagePrices } from './config.ts'

export interface Setting<T> {
  readonly env: string
  readonly fallback: T
  readonly help: string
  readonly parse: (text: string) => T
}

export const whole =
  (min: number, max = Number.MAX_SAFE_INTEGER) =>
  (text: string) => {
    const n = Number(text)
    if (!Number.isInteger(n) || n < min || n > max) throw new Error(`must be a whole number from ${min} to ${max}`)
    return n
  }
export const flag = (text: string) => {
  if (['1', 'true', 'yes', 'on'].includes(text.toLowerCase())) return true
  if (['0', 'false', 'no', 'off'].includes(text.toLowerCase())) return false
  throw new Error('must be true or false')
}
export const list = (text: string) =>
  text
    .split(',')
    .map(item => item.trim())
    .filter(item => item !== '')
export const word = (text: string) => text.trim()
export const url = (text: string) => {
  if (!URL.canParse(text)) throw new Error('must be a URL such as http://localhost:7070')
  return text.replace(/\/$/, '')
}
/** Parses page servers, each given as an id, or as an id with the URL of its management API. */
export const pageServers = (text: string): readonly { readonly id: number; readonly url: string }[] =>
  list(text).map(one => {
    const [, id, address] = /^(\d{1,15})(?:=(.+))?$/.exec(one) ?? []
    if (id === undefined)
      throw new Error('must be ids of page servers with their addresses, such as 2=http://10.0.0.2:9898')
    return { id: Number(id), url: address === undefined ? '' : url(address) }
  })
export const imagePath = (text: string) => {
  if (text !== '' && !/^[a-z0-9.-]+(:\d{1,5})?(\/[a-z0-9._-]+)*$/.test(text))
    throw new Error('must be a registry and a path such as registry.example:5000/apps')
  return text
}
export const prices = (text: string): UsagePrices => {
  const found = { vcpu_hour: 0, gib_hour: 0, storage_gb_month: 0, egress_gb: 0 }
  for (const pair of list(text)) {
    const [name = '', cents] = pair.split('=')
    if (!Object.hasOwn(found, name) || !(Number(cents) >= 0))
      throw new Error('must have the form vcpu_hour=1.2,gib_hour=0.6,storage_gb_month=8,egress_gb=5')
    Object.assign(found, { [name]: Number(cents) })
  }
  return Object.freeze({
    vcpuHour: found.vcpu_hour,
    gibHour: found.gib_hour,
    storageGbMonth: found.storage_gb_month,
    egressGb: found.egress_gb,
  })
}
export const pem = (text: string) => {
  const key = text.includes('-----BEGIN') ? text.replaceAll('\\n', '\n') : Buffer.from(text, 'base64').toString('utf8')
  if (!key.includes('PRIVATE KEY-----')) throw new Error('must be a PEM private key, or one as base64')
  return key
}
export const plan = (text: string) => {
  if (!['free', 'pro', 'business', 'unlimited'].includes(text))
    throw new Error('must be free, pro, business or unlimited')
  return text
}
export const billingProvider = (text: string): BillingConfig['provider'] => {
  if (text === 'none' || text === 'sandbox' || text === 'polar' || text === 'stripe') return text
  throw new Error('must be none, sandbox, polar or stripe')
}
export const databaseBackend = (text: string): DatabaseConfig['backend'] => {
  if (text === 'volume' || text === 'neon') return text
  throw new Error('must be volume or neon')
}
export const ipv6Prefix = (text: string) => {
  const cidr = parseCidr(text)
  if (cidr?.family !== 6 || cidr.prefix < 16 || cidr.prefix > 60)
    throw new Error('must be an IPv6 prefix of /16 to /60, such as fd12:3456:789a::/48')
  return formatCidr(cidr)
}
export const guestNetwork = (text: string) => {
  const cidr = parseCidr(text)
  if (cidr?.family !== 4 || cidr.prefix < 8 || cidr.prefix > 19)
    throw new Error('must be an IPv4 network of /8 to /19, such as 10.192.0.0/10')
  return formatCidr(cidr)
}
export const planPairs = (text: string) =>
  list(text).map(pair => {
    const [product, name, ...rest] = pair.split('=')
    if (!product || !name || rest.length > 0) throw new Error('must be product=plan, separated by commas')
    return [product, plan(name)] as const
  })

export const setting = <T>(env: string, fallback: T, parse: (text: string) => T, help: string): Setting<T> => ({
  env,
  fallback,
  parse,
  help,
})
