import { lookup } from 'node:dns/promises'
import { isPublicAddress } from '../../lib/public-host.ts'
import { BuildFault } from './fault.ts'

export interface CheckedUrl {
  readonly href: string
  readonly scheme: 'http' | 'https'
  /** `host:port:address` for curl, so that the address that was checked is the one that is used. */
  readonly resolve: string
}

/** @throws BuildFault for what is no http(s) address, and for private ones unless they are allowed */
export async function checkUrl(text: string, allowPrivate: boolean): Promise<CheckedUrl> {
  const url = URL.parse(text)
  if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && allowPrivate))
    throw new BuildFault(`A repository is fetched over https only, not from ${text.slice(0, 100)}`)
  const { hostname } = url
  const found = await lookup(hostname.replace(/^\[|\]$/g, ''), { all: true }).catch((cause: unknown) => {
    throw new BuildFault(`There is no host ${hostname}.`, { cause })
  })
  const usable = allowPrivate ? found : found.filter(({ address }) => isPublicAddress(address))
  const [first] = usable
  if (!first)
    throw new BuildFault(`${hostname} has a private address; an operator may allow those (MOTE_GIT_PRIVATE_HOSTS).`)
  const scheme = url.protocol === 'https:' ? 'https' : 'http'
  const port = url.port || (scheme === 'https' ? '443' : '80')
  const address = first.family === 6 ? `[${first.address}]` : first.address
  return { href: url.href, scheme, resolve: `${hostname}:${port}:${address}` }
}
