/** Browsers are sent only to pages of the provider. */
import { ApiError } from '../http/errors.ts'

/** @param hosts names with an optional port; `.example.com` also means every name below it */
export function isAllowed(url: string, hosts: readonly string[]): boolean {
  if (!URL.canParse(url)) return false
  const { protocol, username, password, host, hostname } = new URL(url)
  const isLocal = hostname === 'localhost' || hostname === '127.0.0.1' || hostname === '[::1]'
  if (protocol !== 'https:' && !(protocol === 'http:' && isLocal)) return false
  if (username !== '' || password !== '') return false
  return hosts.some(allowed => {
    const name = allowed.toLowerCase()
    return name.startsWith('.') ? host === name.slice(1) || host.endsWith(name) : host === name
  })
}

/** @throws ApiError 503: the provider is not the one that was configured, or its pages have moved */
export function requireAllowed(url: string, hosts: readonly string[]): string {
  if (isAllowed(url, hosts)) return url
  const cause = new Error('the provider answered with a page on a host that is not in MOTE_BILLING_REDIRECT_HOSTS')
  throw new ApiError('unavailable', 'The page of the billing provider cannot be opened.', { cause })
}
