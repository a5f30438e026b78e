/** Uploads a folder as the source of an app. */
import { createReadStream, createWriteStream, openAsBlob } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { once } from 'node:events'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { Pack } from 'tar-stream'
import type { AppSource } from '../client/index.ts'
import { type FolderFile, sourceFiles } from './folder-files.ts'
import { bytes } from './output.ts'
import type { Call } from './verb.ts'

/** Limits of the API (docs/builds.md), checked here before the upload. */
const mostPackedBytes = 64 << 20
const mostBytes = 512 << 20

/**
 * Packs the source files of the folder and uploads them.
 * @param instead contents for files that replace those of the folder, by path
 * @throws Error if the folder is empty or too large; ApiFailure
 */
export async function sendFolder(
  { client, terminal, signal }: Pick<Call, 'client' | 'terminal' | 'signal'>,
  app: string,
  dir: string,
  instead: ReadonlyMap<string, Buffer> = new Map(),
): Promise<AppSource> {
  const own = (await sourceFiles(dir)).filter(({ path }) => !instead.has(path))
  const replaced = [...instead].map(([path, { length }]) => ({ path, sizeBytes: length, isExecutable: false }))
  const files: FolderFile[] = [...own, ...replaced]
  if (files.length === 0) throw new Error(`All files in ${dir} are ignored. Nothing was uploaded.`)
  assertFits(
    files,
    files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    mostBytes,
  )
  const temporary = await mkdtemp(join(tmpdir(), 'mote-source-'))
  try {
    const archive = join(temporary, 'source.tar.gz')
    await writeArchive(dir, files, archive, signal, instead)
    const { size } = await stat(archive)
    assertFits(files, size, mostPackedBytes)
    return await terminal.step(
      `Sending ${files.length} ${files.length === 1 ? 'file' : 'files'} (${bytes(size)})`,
      async () => client.putAppSource({ app_name: app, body: await openAsBlob(archive) }, { signal }),
    )
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
}

function assertFits(files: readonly FolderFile[], sizeBytes: number, mostAllowed: number): void {
  if (sizeBytes <= mostAllowed) return
  const [largest] = files.toSorted((a, b) => b.sizeBytes - a.sizeBytes)
  throw new Error(
    `The folder has ${bytes(sizeBytes)}, but the limit is ${bytes(mostAllowed)}. Exclude files in .gitignore; ` +
      `the largest file is ${largest?.path} (${bytes(largest?.sizeBytes ?? 0)}).`,
  )
}

/** Writes a tar.gz of the files. @throws Error if a file changes while it is read */
export async function writeArchive(
  dir: string,
  files: readonly FolderFile[],
  archive: string,
  signal: AbortSignal,
  instead: ReadonlyMap<string, Buffer> = new Map(),
): Promise<void> {
  // Imported here, because all commands load this module and few of them upload a folder.
  const { pack } = await import('tar-stream')
  const tar = pack()
  const written = pipeline(tar, createGzip(), createWriteStream(archive, { mode: 0o600 }), { signal })
  const filled = fill(tar, dir, files, instead)
  // If reading a file fails, destroy the archive stream, which ends the pipeline.
  filled.catch((error: Error) => tar.destroy(error))
  await Promise.all([filled, written])
}

async function fill(
  tar: Pack,
  dir: string,
  files: readonly FolderFile[],
  instead: ReadonlyMap<string, Buffer>,
): Promise<void> {
  for (const { path, sizeBytes, isExecutable, target } of files) {
    if (target !== undefined) {
      tar.entry({ name: path, type: 'symlink', linkname: target })
      continue
    }
    const content = instead.get(path)
    if (content !== undefined) {
      tar.entry({ name: path, mode: 0o644 }, content)
      continue
    }
    const done = Promise.withResolvers<void>()
    const entry = tar.entry({ name: path, size: sizeBytes, mode: isExecutable ? 0o755 : 0o644 }, error =>
      error
        ? done.reject(new Error(`${path} changed while it was being read. Try again.`, { cause: error }))
        : done.resolve(),
    )
    if (sizeBytes > 0)
      for await (const chunk of createReadStream(join(dir, path), { end: sizeBytes - 1 }))
        if (!entry.write(chunk)) await once(entry, 'drain')
    entry.end(Buffer.alloc(0))
    await done.promise
  }
  tar.finalize()
}
