import { parseCidr } from '../../lib/cidr.ts'
import { checkPublicHost, PrivateHostError } from '../../lib/public-host.ts'
import { BuildFault } from './fault.ts'

export interface CheckedUrl {
  readonly href: string
  readonly scheme: 'http' | 'https'
  /** `host:port:address` for curl, so that the address that was checked is the one that is used. */
  readonly resolve: string
}

const everything = ['0.0.0.0/0', '::/0'].flatMap(text => parseCidr(text) ?? [])

/** @throws BuildFault for what is no http(s) address, and for private ones unless they are allowed */
export async function checkUrl(text: string, allowPrivate: boolean): Promise<CheckedUrl> {
  const url = URL.parse(text)
  if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && allowPrivate))
    throw new BuildFault(`A repository is fetched over https only, not from ${text.slice(0, 100)}`)
  const { hostname } = url
  const addresses = await checkPublicHost(hostname, { allowed: allowPrivate ? everything : [] }).catch(
    (cause: unknown) => {
      if (cause instanceof PrivateHostError)
        throw new BuildFault(`${hostname} has a private address; an operator may allow those (MOTE_GIT_PRIVATE_HOSTS).`)
      throw new BuildFault(`There is no host ${hostname}.`, { cause })
    },
  )
  const [first = ''] = addresses
  const scheme = url.protocol === 'https:' ? 'https' : 'http'
  const port = url.port || (scheme === 'https' ? '443' : '80')
  return { href: url.href, scheme, resolve: `${hostname}:${port}:${first.includes(':') ? `[${first}]` : first}` }
}
