import { parseCidr } from '../../lib/cidr.ts'
import { checkPublicHost, PrivateHostError } from '../../lib/public-host.ts'
import { BuildFault } from './fault.ts'

interface Checked {
  /** The repository's address in the form that git accepts. */
  readonly href: string
  readonly hostname: string
  readonly port: number
  /**
   * The resolved IP address that was checked. Connections use it, because a second DNS lookup could return another one.
   */
  readonly address: string
}

export type CheckedUrl = Checked & { readonly scheme: 'http' | 'https' | 'ssh' }

const everything = ['0.0.0.0/0', '::/0'].flatMap(text => parseCidr(text) ?? [])

const defaultPorts = { https: 443, http: 80, ssh: 22 } as const

/**
 * Parses a repository's address and resolves its hostname.
 * @param hasKey whether SSH addresses are allowed
 * @throws BuildFault for an invalid address, and for a private one unless `allowPrivate` is set
 */
export async function checkUrl(text: string, allowPrivate: boolean, hasKey = false): Promise<CheckedUrl> {
  const { href, scheme, hostname, port } = parseRemote(text, allowPrivate, hasKey)
  const addresses = await checkPublicHost(hostname, { allowed: allowPrivate ? everything : [] }).catch(
    (cause: unknown) => {
      if (cause instanceof PrivateHostError)
        throw new BuildFault(`${hostname} has a private address; an operator may allow those (MOTE_GIT_PRIVATE_HOSTS).`)
      throw new BuildFault(`There is no host ${hostname}.`, { cause })
    },
  )
  const [address = ''] = addresses
  return { href, scheme, hostname, port, address }
}

/** Returns `host:port:address` for curl's `--resolve`, so that curl connects to the IP address that was checked. */
export const curlResolve = ({ hostname, port, address }: CheckedUrl) =>
  `${hostname}:${port}:${address.includes(':') ? `[${address}]` : address}`

const scpForm = /^(?<user>\w[\w.-]*)@(?<hostname>\w[\w.-]*):(?!\/)(?<path>[\w.~/-]+)$/

function parseRemote(text: string, allowPrivate: boolean, hasKey: boolean): Omit<CheckedUrl, 'address'> {
  const scp = hasKey ? scpForm.exec(text)?.groups?.hostname : undefined
  if (scp !== undefined) return { href: text, scheme: 'ssh', hostname: scp, port: 22 }
  const url = URL.parse(text)
  const scheme = (['https', 'http', 'ssh'] as const).find(one => url?.protocol === `${one}:`)
  const isOpen = scheme === 'https' || (scheme === 'http' && allowPrivate) || (scheme === 'ssh' && hasKey)
  if (!url || scheme === undefined || !isOpen || /^-|^$/.test(url.hostname) || url.username.startsWith('-'))
    throw new BuildFault(
      `The repository cannot be fetched from ${text.slice(0, 100)}: use an https:// address, or an SSH address with a deploy key.`,
    )
  return { href: url.href, scheme, hostname: url.hostname, port: Number(url.port || defaultPorts[scheme]) }
}

/**
 * Returns the address of a submodule, using the transport of its parent repository.
 * @param url as in `.gitmodules`: relative to the repository, or an address on the same host with any transport
 * @returns undefined if the submodule is on another host
 */
export function submoduleUrl(parent: string, url: string): string | undefined {
  const from = splitRemote(parent)
  if (!from) return undefined
  const isRelative = /^\.\.?\//.test(url)
  const to = isRelative ? undefined : splitRemote(url)
  if (!isRelative && to?.hostname.toLowerCase() !== from.hostname.toLowerCase()) return undefined
  const path = isRelative ? new URL(url, `http://x/${from.path}/`).pathname : (to?.path ?? '')
  return `${from.before}${path.replace(/^\//, '')}`
}

function splitRemote(text: string) {
  const scp = scpForm.exec(text)?.groups
  if (scp) return { hostname: scp.hostname ?? '', before: `${scp.user}@${scp.hostname}:`, path: scp.path ?? '' }
  const url = URL.parse(text)
  if (!url) return undefined
  const user = url.username === '' ? '' : `${url.username}@`
  const before = `${url.protocol}//${user}${url.host}/`
  return { hostname: url.hostname, before, path: url.pathname.replace(/^\//, '') }
}
