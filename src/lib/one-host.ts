/**
 * Whether a request has more than one `Host` field, for which RFC 9112, 3.2 requires the response 400. Node uses the
 * first one, but a proxy in front may have used the last one.
 * @param rawHeaders names and values alternating, as Node lists them
 */
export function hasSeveralHosts(rawHeaders: readonly string[]): boolean {
  let found = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === 4 && name.toLowerCase() === 'host') found += 1
  }
  return found > 1
}
