/** Paths in a VM as the API encodes them: bytes with percent-encoding, so that a name need not be UTF-8. */

/** The name as text, with replacement characters for bytes that are not UTF-8. */
export function decodeName(encoded: string): string {
  const bytes = encoded
    .split(/(%[0-9a-f]{2})/i)
    .flatMap((part, at) => (at % 2 === 1 ? [Number.parseInt(part.slice(1), 16)] : [...new TextEncoder().encode(part)]))
  return new TextDecoder().decode(Uint8Array.from(bytes))
}

/** The encoded path of a new file. @param name entered by the user, or the name of a file on this computer */
export const inDirectory = (directory: string, name: string) =>
  `${directory === '/' ? '' : directory}/${encodeURIComponent(name)}`

export const parentOf = (path: string) => path.slice(0, path.lastIndexOf('/')) || '/'

export interface Crumb {
  readonly name: string
  readonly path: string
}

/** Breadcrumbs: the directories from the root to the path. */
export function crumbsOf(path: string): readonly Crumb[] {
  const parts = path.split('/').filter(Boolean)
  return [
    { name: '/', path: '/' },
    ...parts.map((part, at) => ({ name: decodeName(part), path: `/${parts.slice(0, at + 1).join('/')}` })),
  ]
}

/** The path from the URL of the page, without `.` and `..`; the root if it is not an absolute path. */
export function pathOfSearch(value: unknown): string {
  if (typeof value !== 'string' || !value.startsWith('/')) return '/'
  const parts = value.split('/').filter(part => part !== '' && part !== '.' && part !== '..')
  return `/${parts.join('/')}`
}

/** Why a file name is invalid; undefined if it is valid. */
export const nameFault = (name: string) =>
  name === '' || name === '.' || name === '..' || name.includes('/') ? 'A name without slashes is needed.' : undefined

interface Sorted {
  readonly name: string
  readonly type: string
  readonly target_type: string | null
}

export const isDirectory = ({ type, target_type }: Omit<Sorted, 'name'>) =>
  type === 'directory' || (type === 'symlink' && target_type === 'directory')
export const isReadable = ({ type, target_type }: Omit<Sorted, 'name'>) =>
  type === 'file' || (type === 'symlink' && target_type === 'file')

const names = new Intl.Collator(undefined, { numeric: true })

/** Sorts directories first, then by name, with numbers in numeric order. */
export const inOrder = <T extends Sorted>(entries: readonly T[]): readonly T[] =>
  entries.toSorted((a, b) => Number(isDirectory(b)) - Number(isDirectory(a)) || names.compare(a.name, b.name))
