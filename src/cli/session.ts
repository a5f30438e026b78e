/**
 * Resolves URL, token and project of the API: from flags, then the environment, then the folder's `mote.toml` (the
 * project only), then the file of `mote login`.
 */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Client } from '../client/index.ts'
import { homeDir } from '../lib/home.ts'

/** Contents of `~/.config/mote/config.json`, readable by its owner only. */
export interface Kept {
  readonly url?: string
  readonly token?: string
  readonly project?: string
}

/** Flags that every command that calls the API has. */
export interface AccessFlags {
  readonly url?: string
  readonly token?: string
  readonly project?: string
}

export interface Access {
  readonly url: string
  readonly token: string
  readonly project: string | undefined
  readonly client: Client
}

export const defaultUrl = 'http://localhost:7070'

/** Path of the file that `mote login` writes: $XDG_CONFIG_HOME/mote/config.json (XDG Base Directory 0.8). */
export const configFile = (env: NodeJS.ProcessEnv = process.env) =>
  join(env.XDG_CONFIG_HOME || join(env.HOME || homeDir(), '.config'), 'mote', 'config.json')

export async function readRetained(): Promise<Kept> {
  const text = await readFile(configFile(), 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return '{}'
    throw cause
  })
  try {
    const parsed: unknown = JSON.parse(text)
    const field = (name: string) => {
      const value: unknown = typeof parsed === 'object' && parsed !== null ? Reflect.get(parsed, name) : undefined
      return typeof value === 'string' && value !== '' ? { [name]: value } : {}
    }
    return { ...field('url'), ...field('token'), ...field('project') }
  } catch (cause) {
    throw new Error(`${configFile()} is not valid JSON. Fix or remove it, then run "mote login".`, { cause })
  }
}

/**
 * Replaces the file that `mote login` writes. The replacement is atomic and has mode 0600 from the start, because the
 * file contains a token.
 */
export async function keep(kept: Kept): Promise<void> {
  const file = configFile()
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const partial = `${file}.${process.pid}`
  await writeFile(partial, `${JSON.stringify(kept, null, 2)}\n`, { mode: 0o600 })
  await rename(partial, file)
}

export const forget = () => rm(configFile(), { force: true })

/** The URL of the API. Needs no token. */
export async function apiUrl(flags: AccessFlags): Promise<string> {
  return (flags.url ?? process.env.MOTE_URL ?? (await readRetained()).url ?? defaultUrl).replace(/\/$/, '')
}

/** Resolves URL, token and project, and creates the API client. @throws Error if there is no token */
export async function access(flags: AccessFlags): Promise<Access> {
  const kept = await readRetained()
  const url = await apiUrl(flags)
  const token = flags.token ?? process.env.MOTE_TOKEN ?? kept.token
  if (!token) throw new Error('You are not signed in: run "mote login", or set MOTE_TOKEN.')
  const { readLink } = await import('./folder.ts')
  const project = flags.project ?? process.env.MOTE_PROJECT ?? (await readLink())?.project ?? kept.project
  const { createClient } = await import('../client/index.ts')
  return { url, token, project, client: createClient({ baseUrl: url, token: () => token, project: () => project }) }
}
