/**
 * The functions of `node:path/posix` that are needed to plan a deployment. Unlike those, they also work in browsers.
 */

export const isAbsolute = (path: string): boolean => path.startsWith('/')

export const join = (...parts: readonly string[]): string => normalize(parts.filter(part => part !== '').join('/'))

/** Removes `.`, `..` and repeated slashes from a path. A slash at the end is kept. */
export function normalize(path: string): string {
  const names: string[] = []
  for (const name of path.split('/')) {
    if (name === '' || name === '.') continue
    if (name !== '..') names.push(name)
    else if (names.length > 0 && names.at(-1) !== '..') names.pop()
    else if (!isAbsolute(path)) names.push('..')
  }
  const end = path.endsWith('/') && names.length > 0 ? '/' : ''
  const all = `${isAbsolute(path) ? '/' : ''}${names.join('/')}${end}`
  if (all !== '') return all
  return path.endsWith('/') ? './' : '.'
}

export function dirname(path: string): string {
  const trimmed = path.replace(/(?<=[^/])\/+$/, '')
  const at = trimmed.lastIndexOf('/')
  if (at === -1) return '.'
  return trimmed.slice(0, at).replace(/(?<!\/)\/+$/, '') || '/'
}
