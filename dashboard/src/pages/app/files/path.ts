/** Paths in a VM as the API encodes them: bytes with percent-encoding, so that a name need not be UTF-8. */

/** The name as text, with replacement characters for what is not UTF-8. */
export function decodeName(encoded: string): string {
  const bytes = encoded
    .split(/(%[0-9a-f]{2})/i)
    .flatMap((part, at) => (at % 2 === 1 ? [Number.parseInt(part.slice(1), 16)] : [...new TextEncoder().encode(part)]))
  return new TextDecoder().decode(Uint8Array.from(bytes))
}

/** @param name text that a user typed, or the name of a file on this computer */
export const inDirectory = (directory: string, name: string) =>
  `${directory === '/' ? '' : directory}/${encodeURIComponent(name)}`

export const parentOf = (path: string) => path.slice(0, path.lastIndexOf('/')) || '/'

export interface Crumb {
  readonly name: string
  readonly path: string
}

/** The directories from the root to the path. */
export function crumbsOf(path: string): readonly Crumb[] {
  const parts = path.split('/').filter(Boolean)
  return [
    { name: '/', path: '/' },
    ...parts.map((part, at) => ({ name: decodeName(part), path: `/${parts.slice(0, at + 1).join('/')}` })),
  ]
}

/** What the address of the page may name; anything else is the root. */
export function pathOfSearch(value: unknown): string {
  if (typeof value !== 'string' || !value.startsWith('/')) return '/'
  const parts = value.split('/').filter(part => part !== '' && part !== '.' && part !== '..')
  return `/${parts.join('/')}`
}

/** Why a name cannot be one, or undefined. */
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

/** Directories first, then by name, with numbers in their order. */
export const inOrder = <T extends Sorted>(entries: readonly T[]): readonly T[] =>
  entries.toSorted((a, b) => Number(isDirectory(b)) - Number(isDirectory(a)) || names.compare(a.name, b.name))
