/** Files of VMs: how they are compared and checked. */
import type { FieldFault } from '../lib/faults.ts'
import type { AppFile } from './schema.ts'

export interface GivenFile {
  readonly path: string
  /** Four octal digits. */
  readonly mode: string
  /** Variable whose value is the content. */
  readonly variable?: string
  /** Path of the file with the content, before it is read. */
  readonly source?: string
  readonly content?: Uint8Array<ArrayBuffer>
  /** Of the content. */
  readonly sha256?: string
  /** The content is never shown, and retained once the app has it. */
  readonly isSecret?: boolean
}

export const modeOf = (mode: string) => mode.padStart(4, '0')

export const filesOf = ({ files = [] }: AppFile): readonly GivenFile[] =>
  files.map(({ path, mode = '0644', source, secret }) => ({
    path,
    mode: modeOf(mode),
    ...(source === undefined ? {} : { source }),
    ...(secret === undefined ? {} : { variable: secret }),
  }))

const contentText = ({ variable, sha256, source, isSecret }: GivenFile) => {
  if (variable !== undefined) return `value of ${variable}`
  return isSecret === true ? 'secret' : sha256 === undefined ? `content of ${source}` : `sha256:${sha256}`
}

/** The files as pairs of path and text, to compare and to show. */
export const flatFiles = (files: readonly GivenFile[] = []): ReadonlyMap<string, string> =>
  new Map(files.map(file => [file.path, `${file.mode} ${contentText(file)}`]))

/**
 * Files of the app that the plan compares. Secrets cannot be read: one that the file does not mention is retained, and
 * one that it has as a secret is not set again.
 */
export function comparedFiles(
  wanted: readonly GivenFile[] = [],
  now: readonly GivenFile[] = [],
): { readonly wanted: readonly GivenFile[]; readonly now: readonly GivenFile[] } {
  const secrets = new Set(now.filter(({ isSecret }) => isSecret).map(({ path }) => path))
  const replaced = new Set(wanted.filter(({ isSecret }) => isSecret !== true).map(({ path }) => path))
  return {
    wanted: wanted.filter(({ path, isSecret }) => !(isSecret === true && secrets.has(path))),
    now: now.filter(({ path, isSecret }) => isSecret !== true || replaced.has(path)),
  }
}

/** A file with this content, whose digest shows whether it has changed. For the command line and for browsers. */
export async function contentFile(path: string, mode: string, content: Uint8Array<ArrayBuffer>): Promise<GivenFile> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', content))
  return { path, mode, content, sha256: [...digest].map(byte => byte.toString(16).padStart(2, '0')).join('') }
}

/** File systems of the kernel: nothing can be kept there. */
const kernelTrees = ['/proc', '/sys', '/dev', '/.mote']

/** Returns why a file cannot be at the path of a VM; undefined if it can. */
export function filePathFault(path: string): string | undefined {
  const parts = path.split('/').slice(1)
  if (!path.startsWith('/') || parts.some(part => part === '' || part === '.' || part === '..'))
    return 'must be absolute and without empty parts, "." and "..", such as /etc/web/web.conf'
  if (kernelTrees.some(tree => path === tree || path.startsWith(`${tree}/`))) return 'belongs to the system'
  return undefined
}

/** Faults of `[[files]]`. Fields as in `describeFaults`. */
export function brokenFiles({ files = [] }: AppFile): FieldFault[] {
  const faults: FieldFault[] = []
  for (const [at, { path, source, secret }] of files.entries()) {
    const fault = filePathFault(path)
    if (fault !== undefined) faults.push({ field: `files/${at}/path`, message: fault })
    if (files.slice(0, at).some(other => other.path === path))
      faults.push({ field: `files/${at}/path`, message: `${path} is in the file twice` })
    if ((source === undefined) === (secret === undefined))
      faults.push({ field: `files/${at}/path`, message: 'needs either a source or a secret' })
    if (source !== undefined && /^\/|^[A-Za-z]:|(^|[/\\])\.\.([/\\]|$)/.test(source))
      faults.push({ field: `files/${at}/source`, message: 'must be below the folder of the file' })
  }
  return faults
}

/** The tables of a file after the app was read. Contents have no file here unless it had one before. */
export function filesWith(
  given: NonNullable<AppFile['files']>,
  state: readonly GivenFile[],
): NonNullable<AppFile['files']> {
  return state.flatMap(({ path, mode, variable, isSecret }) => {
    const before = given.find(one => one.path === path)
    const own = modeOf(before?.mode ?? '0644') === mode ? {} : { mode }
    if (variable !== undefined)
      return [{ path, ...(before?.mode === undefined ? {} : { mode: before.mode }), ...own, secret: variable }]
    return before?.source === undefined || isSecret === true ? [] : [{ ...before, ...own }]
  })
}
