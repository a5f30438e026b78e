import { Resolver } from 'node:dns/promises'
import { type Found, recordName, recordValue } from './rules.ts'

export interface TxtResolver {
  /** Each record with its parts joined (RFC 7208, 3.3 has the same reading). */
  txt(name: string): Promise<string[]>
}

const timeoutMs = 2000
const tries = 2

/** @param servers `address` or `address:port`; empty: those of the system */
export function createResolver(servers: readonly string[]): TxtResolver {
  const resolver = new Resolver({ timeout: timeoutMs, tries })
  if (servers.length > 0) resolver.setServers([...servers])
  return { txt: async name => (await resolver.resolveTxt(name)).map(parts => parts.join('')) }
}

/** RFC 2308: there is no such name, or none of this type. */
const absent = new Set(['ENOTFOUND', 'ENODATA'])

/** Looks whether the record is there. Never throws. */
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
    return { kind: 'unclear', message: `The name servers did not answer for ${record} (${code}). It is tried again.` }
  }
}
