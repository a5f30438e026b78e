import { Resolver } from 'node:dns/promises'
import { type Found, recordName, recordValue } from './rules.ts'

export interface TxtResolver {
  /** Returns each TXT record as one string (RFC 7208, 3.3: its parts are concatenated). */
  txt(name: string): Promise<string[]>
}

const timeoutMs = 2000
const tries = 2

/**
 * Creates a DNS resolver.
 * @param servers name servers as `address` or `address:port`; empty: the system's name servers
 */
export function createResolver(servers: readonly string[]): TxtResolver {
  const resolver = new Resolver({ timeout: timeoutMs, tries })
  if (servers.length > 0) resolver.setServers([...servers])
  return { txt: async name => (await resolver.resolveTxt(name)).map(parts => parts.join('')) }
}

/** Error codes for a DNS name that does not exist or has no record of the requested type (RFC 2308). */
const absent = new Set(['ENOTFOUND', 'ENODATA'])

/** Checks whether the domain's TXT record exists. Never throws. */
export async function lookFor(
  resolver: TxtResolver,
  domain: { readonly name: string; readonly token: string },
): Promise<Found> {
  const record = recordName(domain.name)
  try {
    const values = await resolver.txt(record)
    if (values.includes(recordValue(domain.token))) return { kind: 'proven' }
    return { kind: 'missing', message: `The TXT record at ${record} has another value. Set it to the one shown here.` }
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown'
    if (absent.has(code)) return { kind: 'missing', message: `There is no TXT record at ${record} yet.` }
    return {
      kind: 'unclear',
      message: `The name servers did not answer for ${record} (${code}). The check will be repeated.`,
    }
  }
}
