/** Links a folder to its app: by its `mote.toml`, or by a `mote.json` of an earlier version. */
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { appFileName } from '../appfile/name.ts'
import type { Call } from './verb.ts'

export interface Linked {
  readonly app: string
  readonly project?: string
  /** Set if deployments are built from the folder itself, not from a repository. */
  readonly source?: 'folder'
}

const linkFile = 'mote.json'

/**
 * Reads the app that the folder belongs to; undefined if the folder has neither `mote.toml` nor `mote.json`. Checks no
 * other keys.
 * @throws AppFileInvalid if `mote.toml` is not TOML
 */
export async function readLink(dir = process.cwd()): Promise<Linked | undefined> {
  const file = await readFile(join(dir, appFileName), 'utf8').catch(() => undefined)
  if (file === undefined) return readOlderLink(dir)
  const { readToml } = await import('../appfile/toml.ts')
  const { app, project } = readToml(file, appFileName)
  if (typeof app !== 'string') throw new Error(`${appFileName} has no "app" key. Add the name of the app.`)
  return { app, ...(typeof project === 'string' ? { project } : {}) }
}

async function readOlderLink(dir: string): Promise<Linked | undefined> {
  const text = await readFile(join(dir, linkFile), 'utf8').catch(() => undefined)
  if (text === undefined) return undefined
  const parsed: unknown = JSON.parse(text)
  const field = (name: string): unknown =>
    typeof parsed === 'object' && parsed !== null ? Reflect.get(parsed, name) : undefined
  const [app, project, source] = [field('app'), field('project'), field('source')]
  if (typeof app !== 'string') throw new Error(`${linkFile} has no "app" field. Remove the file and run "mote launch".`)
  return { app, ...(typeof project === 'string' ? { project } : {}), ...(source === 'folder' ? { source } : {}) }
}

/**
 * Returns the app that a command applies to: the one given with `--app`, else the folder's app.
 * @throws Error if there is neither
 */
export async function appOf({ flags }: Pick<Call, 'flags'>): Promise<string> {
  if (typeof flags.app === 'string') return flags.app
  const link = await readLink()
  if (link) return link.app
  throw new Error('No app given. Use --app <name>, or run the command in a folder that "mote launch" has linked.')
}

export const appFlag = ['-a, --app <name>', 'the app; by default that of this folder (mote.toml)'] as const

/** Derives the name of an app from the folder's name: a DNS label of at most 40 characters. */
export function appNameFrom(dir: string): string {
  const label = basename(dir)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^[-0-9]+|(?<!-)-+$/g, '')
  return label.slice(0, 40).replace(/(?<!-)-+$/, '') || 'app'
}
