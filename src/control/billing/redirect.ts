/** Restricts redirects to pages of the billing provider. */
import { ApiError } from '../http/errors.ts'

/**
 * Returns whether browsers may be redirected to this URL.
 * @param hosts host names with an optional port; `.example.com` includes all subdomains
 */
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

/**
 * Returns the URL if browsers may be redirected to it.
 * @throws ApiError 503 otherwise, for example because the provider moved its pages to another host
 */
export function requireAllowed(url: string, hosts: readonly string[]): string {
  if (isAllowed(url, hosts)) return url
  const cause = new Error('the provider answered with a page on a host that is not in MOTE_BILLING_REDIRECT_HOSTS')
  throw new ApiError('unavailable', 'The page of the billing provider cannot be opened.', { cause })
}
