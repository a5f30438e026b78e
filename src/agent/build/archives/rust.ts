/** Finds the components of a Rust toolchain in the manifest of its release. */
import { createHash } from 'node:crypto'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Archive, Downloads } from './download.ts'
import { type Metadata, readMetadata } from './metadata.ts'
import { Components } from './rust-read.ts'

const channel = /^(stable|beta|nightly|\d+\.\d+(?:\.\d+)?)(?:-(\d{4}-\d\d-\d\d))?$/

const Stored = Type.Object({ text: Type.String(), components: Components })
const maxBytes = 8 << 20

export interface RustDeps {
  readonly server: string
  readonly downloads: Downloads
  readonly metadata: Metadata
}

/** The files that rustup needs to install one toolchain, keyed by their path on Rust's download server. */
export interface RustRelease {
  /** The contents of the small files: the manifest and its checksum. */
  readonly texts: ReadonlyMap<string, string>
  readonly archives: ReadonlyMap<string, Archive>
}

/**
 * Returns the files from which rustup installs the toolchain.
 * @param toolchain such as `stable` or `1.85`
 * @returns undefined for a custom name, which only rustup can resolve
 */
export async function rustRelease(
  { server, downloads, metadata }: RustDeps,
  toolchain: string,
): Promise<RustRelease | undefined> {
  const [, name, date] = channel.exec(toolchain) ?? []
  if (name === undefined) return undefined
  const path = `dist/${date === undefined ? '' : `${date}/`}channel-rust-${name}.toml`
  const { text, components } = await metadata.get(`rust ${server} ${path}`, Stored, async () => {
    const [sum = ''] = (await downloads.text(`${server}/${path}.sha256`, 1024)).split(/\s/)
    const manifest = await downloads.text(`${server}/${path}`, maxBytes)
    if (sha256(manifest) !== sum) throw new Error(`the checksum of ${server}/${path} does not match`)
    const found = Value.Parse(Components, await readMetadata({ kind: 'rust', text: manifest }))
    return { text: manifest, components: found }
  })
  const archives = new Map<string, Archive>()
  for (const { url, checksum } of components) {
    const { pathname } = URL.parse(url) ?? { pathname: '' }
    if (!/^\/dist\/[\w./-]+\.tar\.xz$/.test(pathname) || pathname.includes('..')) return undefined
    archives.set(pathname.slice(1), { url: `${server}${pathname}`, algorithm: 'sha256', checksum })
  }
  return {
    texts: new Map([
      [path, text],
      [`${path}.sha256`, `${sha256(text)}  channel-rust-${name}.toml\n`],
      // The build script uses these files only if the file `complete` exists, which is written last.
      ['complete', ''],
    ]),
    archives,
  }
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
