/** Packs the toolchain that a build needs into one tar file, from the host's archive cache. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import { downloadsWith, type Archive } from './download.ts'
import { metadataIn } from './metadata.ts'
import { npmArchives } from './npm.ts'
import { rustRelease } from './rust.ts'
import { archiveStore } from './store.ts'

/** A part of a toolchain to put into the tar file. The build itself downloads the parts that the tar file lacks. */
export type WantedArchive =
  /**
   * An npm package and the packages with its binaries, stored as the files `<name>.0.tgz`, `<name>.1.tgz` and so on.
   */
  | { readonly kind: 'npm'; readonly name: string; readonly spec: string }
  /** One downloaded archive, stored as the file `<name>`. */
  | { readonly kind: 'file'; readonly name: string; readonly url: string; readonly sha256: string }
  /** A directory `rust` with the layout of Rust's download server, from which rustup installs. */
  | { readonly kind: 'rust'; readonly toolchain: string }

export interface ToolchainDeps {
  readonly cacheDir: string
  /** Limit on the total size of the cached archives. With 0, builds download their toolchains themselves. */
  readonly toolchainMib: number
  /** Trusted certificate authorities in PEM, see `buildTrust`. */
  readonly authorities: string
  /** The servers from which toolchains are downloaded; default: the public ones. */
  readonly servers?: ToolchainServers
}

export interface ToolchainServers {
  readonly npm: string
  readonly rust: string
}

const publicServers: ToolchainServers = { npm: 'https://registry.npmjs.org', rust: 'https://static.rust-lang.org' }

/**
 * Packs the wanted archives into a tar file. Archives that cannot be fetched are left out, because the build may still
 * be able to download them.
 * @param work the working directory of the build
 * @returns the path of the tar file; undefined if it would be empty
 * @throws only the abort signal's reason
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
