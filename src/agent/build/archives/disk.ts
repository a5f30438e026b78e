/** Makes the read-only disk with the toolchain that a build needs, from the host's archives. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import { downloadsWith, type Archive } from './download.ts'
import { metadataIn } from './metadata.ts'
import { npmArchives } from './npm.ts'
import { rustRelease } from './rust.ts'
import { archiveStore } from './store.ts'

/** A part of a toolchain that a build needs. The build downloads what its host does not have. */
export type WantedArchive =
  /** The files `<name>.<n>.tgz`. */
  | { readonly kind: 'npm'; readonly name: string; readonly spec: string }
  /** The file `<name>`. */
  | { readonly kind: 'file'; readonly name: string; readonly url: string; readonly sha256: string }
  /** The directory `rust`, a server for rustup. */
  | { readonly kind: 'rust'; readonly toolchain: string }

export interface ToolchainDeps {
  readonly cacheDir: string
  /** Limit on all archives together; 0: builds fetch their toolchains themselves. */
  readonly toolchainMib: number
  /** PEM; see `buildTrust`. */
  readonly authorities: string
  /** The publishers; default: the public ones. */
  readonly servers?: ToolchainServers
}

export interface ToolchainServers {
  readonly npm: string
  readonly rust: string
}

const publicServers: ToolchainServers = { npm: 'https://registry.npmjs.org', rust: 'https://static.rust-lang.org' }

/**
 * @param work a directory of the build
 * @returns the file, a tar; undefined if the host has nothing for it
 * @throws only the reason of the signal: what the host cannot get, the build may still be able to
 */
export async function toolchainDisk(
  { cacheDir, toolchainMib, authorities, servers = publicServers }: ToolchainDeps,
  { wanted, work, say }: { wanted: readonly WantedArchive[]; work: string; say(line: string): void },
  signal: AbortSignal,
): Promise<string | undefined> {
  if (toolchainMib === 0 || wanted.length === 0) return undefined
  const downloads = downloadsWith(authorities)
  const metadata = metadataIn(cacheDir, Date.now)
  const store = archiveStore(cacheDir, toolchainMib, downloads)
  const dir = join(work, 'toolchains')
  let had = false
  for (const one of wanted) {
    const place = async (archive: Archive, path: string) => {
      await mkdir(dirname(join(dir, path)), { recursive: true })
      const isNew = await store.put(archive, join(dir, path), signal)
      say(`${isNew ? 'fetched' : 'from the cache of the host'}: ${new URL(archive.url).pathname.split('/').at(-1)}`)
      had = true
    }
    try {
      if (one.kind === 'file') await place({ url: one.url, algorithm: 'sha256', checksum: one.sha256 }, one.name)
      else if (one.kind === 'npm') {
        const archives = await npmArchives({ registry: servers.npm, downloads, metadata }, one.spec)
        for (const [n, archive] of (archives ?? []).entries()) await place(archive, `${one.name}.${n}.tgz`)
      } else {
        const release = await rustRelease({ server: servers.rust, downloads, metadata }, one.toolchain)
        for (const [path, archive] of release?.archives ?? []) await place(archive, `rust/${path}`)
        for (const [path, text] of release?.texts ?? []) {
          await mkdir(dirname(join(dir, 'rust', path)), { recursive: true })
          await writeFile(join(dir, 'rust', path), text)
        }
      }
    } catch (error) {
      signal.throwIfAborted()
      say(`the host cannot fetch this part of the toolchain: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  if (!had) return undefined
  const file = join(work, 'toolchains.tar')
  await run('tar', ['-C', dir, '-cf', file, '.'], { signal })
  await rm(dir, { recursive: true })
  return file
}
