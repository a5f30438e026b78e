/** Files that an app gets in its VMs: how they are compared and checked. */
import type { FieldFault } from '../lib/faults.ts'
import type { AppFile } from './schema.ts'

export interface GivenFile {
  readonly path: string
  /** File mode in four octal digits. */
  readonly mode: string
  /** Name of the app's variable whose value is the content of the file. */
  readonly variable?: string
  /** Path of the local file with the content; only set until the local file has been read. */
  readonly source?: string
  readonly content?: Uint8Array<ArrayBuffer>
  /** SHA-256 digest of the content. */
  readonly sha256?: string
  /** Whether the content is secret: never shown, and not replaced once the app has the file. */
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

/** Returns a text for the path of each file, with its mode and content, which a plan compares and shows. */
export const flatFiles = (files: readonly GivenFile[] = []): ReadonlyMap<string, string> =>
  new Map(files.map(file => [file.path, `${file.mode} ${contentText(file)}`]))

/**
 * Returns the files of the configuration and of the app that a plan compares. The API does not return the contents of
 * secret files, so a secret file of the app is kept if the configuration does not mention it, and not set again if it
 * does.
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

/**
 * Returns a file with this content and its digest, by which a plan detects changes. Works in Node.js and in browsers.
 */
export async function contentFile(path: string, mode: string, content: Uint8Array<ArrayBuffer>): Promise<GivenFile> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', content))
  return { path, mode, content, sha256: [...digest].map(byte => byte.toString(16).padStart(2, '0')).join('') }
}

/**
 * Virtual file systems of the kernel, and the directory of the guest's own files: the app's files cannot be stored
 * there.
 */
const kernelTrees = ['/proc', '/sys', '/dev', '/.mote']

/** Returns why a file cannot have this path in a VM; undefined if it can. */
export function filePathFault(path: string): string | undefined {
  const parts = path.split('/').slice(1)
  if (!path.startsWith('/') || parts.some(part => part === '' || part === '.' || part === '..'))
    return 'must be absolute and without empty parts, "." and "..", such as /etc/web/web.conf'
  if (kernelTrees.some(tree => path === tree || path.startsWith(`${tree}/`))) return 'belongs to the system'
  return undefined
}

/** Returns the errors in `[[files]]`. The field of an error is a path with slashes, such as `files/0/path`. */
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

/**
 * Returns the `[[files]]` tables for the state of an app. A file with a content is only included if `mote.toml` had it
 * before, because otherwise there is no local file to take the content from.
 */
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
