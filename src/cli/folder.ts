/** Which app a folder belongs to: `mote.json`, made by `mote launch`, meant to be committed. */
import { readFile, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Call } from './verb.ts'

export interface Linked {
  readonly app: string
  readonly project?: string
  /** What is deployed is the folder itself, not a repository. */
  readonly source?: 'folder'
}

export const linkFile = 'mote.json'

export async function readLink(dir = process.cwd()): Promise<Linked | undefined> {
  const text = await readFile(join(dir, linkFile), 'utf8').catch(() => undefined)
  if (text === undefined) return undefined
  const parsed: unknown = JSON.parse(text)
  const field = (name: string): unknown =>
    typeof parsed === 'object' && parsed !== null ? Reflect.get(parsed, name) : undefined
  const [app, project, source] = [field('app'), field('project'), field('source')]
  if (typeof app !== 'string') throw new Error(`${linkFile} names no "app": remove it and run "mote launch"`)
  return { app, ...(typeof project === 'string' ? { project } : {}), ...(source === 'folder' ? { source } : {}) }
}

export const writeLink = (link: Linked, dir = process.cwd()) =>
  writeFile(join(dir, linkFile), `${JSON.stringify(link, null, 2)}\n`)

/** The app a command is about: `--app`, else the folder's. @throws Error when neither names one */
export async function appOf({ flags }: Pick<Call, 'flags'>): Promise<string> {
  if (typeof flags.app === 'string') return flags.app
  const link = await readLink()
  if (link) return link.app
  throw new Error('Which app? Give --app <name>, or run this in a folder that "mote launch" has seen.')
}

export const appFlag = ['-a, --app <name>', "the app; the folder's (mote.json) by default"] as const

/** What a folder holds, as a build would see it. */
export interface Found {
  readonly what: string
  readonly port: number
}

const signs: readonly { readonly file: string; readonly what: string; readonly port: number }[] = [
  { file: 'Dockerfile', what: 'a Dockerfile', port: 8080 },
  { file: 'package.json', what: 'a Node app (package.json)', port: 3000 },
  { file: 'go.mod', what: 'a Go program (go.mod)', port: 8080 },
  { file: 'pyproject.toml', what: 'a Python app (pyproject.toml)', port: 8000 },
  { file: 'requirements.txt', what: 'a Python app (requirements.txt)', port: 8000 },
  { file: 'index.html', what: 'a static site (index.html)', port: 8080 },
]

/** The first sign that is there. A Dockerfile's own EXPOSE wins over the usual port. */
export async function inspectFolder(dir: string): Promise<Found | undefined> {
  const sign = signs.find(({ file }) => existsSync(join(dir, file)))
  if (sign?.file !== 'Dockerfile') return sign
  const exposed = /^\s*EXPOSE\s+(\d{1,5})/im.exec(await readFile(join(dir, 'Dockerfile'), 'utf8'))?.[1]
  return { what: sign.what, port: exposed === undefined ? sign.port : Number(exposed) }
}

/** A DNS label out of a folder's name, at most 40 characters, as names of apps are. */
export function appNameFrom(dir: string): string {
  const label = basename(dir)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^[-0-9]+|-+$/g, '')
  return label.slice(0, 40).replace(/-+$/, '') || 'app'
}
