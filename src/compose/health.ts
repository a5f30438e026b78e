/** Finds the path that a health check command requests. */

const address = /\bhttps?:\/\/(\[[0-9a-f:]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?(\/[^\s"'|;&)]*)?/

/**
 * Returns the path of the URL in a health check command; undefined if there is no URL, or one with another port than
 * the app's.
 */
export function healthPath(command: string, port: number): string | undefined {
  const found = address.exec(command.slice(0, 4096))
  if (!found) return undefined
  const [, , given = '80', path = '/'] = found
  const isPlain = /^\/[\x21-\x7e]*$/.test(path) && path.length <= 512
  return Number(given) === port && isPlain ? path : undefined
}
