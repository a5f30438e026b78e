import { chmod, constants, type FileHandle, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** Returns whether this is the error of a system call with the given code, such as `ENOENT`. */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

/**
 * Creates a directory that only its owner can enter, and restricts an existing one. If the process does not run as
 * root, modes are not changed: child processes run as the same user, and the directory may be shared with other users.
 */
export async function privateDir(path: string): Promise<void> {
  const isRoot = process.getuid?.() === 0
  await mkdir(path, { recursive: true, ...(isRoot ? { mode: 0o700 } : {}) })
  if (isRoot && ((await stat(path)).mode & 0o077) !== 0) await chmod(path, 0o700)
}

/**
 * Replaces the file atomically: readers find the old or the new content, even after a crash of this process. With
 * `durable` (the default), the new content survives a power failure once this resolves; without it, the file may be
 * empty afterwards.
 */
export async function writeFileAtomic(
  path: string,
  data: string | Buffer,
  { mode = 0o600, durable = true }: { readonly mode?: number; readonly durable?: boolean } = {},
): Promise<void> {
  const temporary = `${path}.${process.pid}.${Math.random().toString(36).slice(2)}.tmp`
  try {
    await withFile(temporary, 'wx', mode, async file => {
      await file.writeFile(data)
      if (durable) await file.sync()
    })
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  if (durable) await withFile(dirname(path), 'r', undefined, dir => dir.sync())
}

/**
 * Flushes the files in the directory to disk and makes them read-only. To be called before the directory is renamed to
 * its final name.
 */
export async function sealFiles(dir: string): Promise<void> {
  for (const name of await readdir(dir)) {
    const path = join(dir, name)
    await withFile(path, 'r', undefined, file => file.sync())
    await chmod(path, 0o400)
  }
}

/**
 * Reads a regular file of at most `maxBytes`. Returns undefined for anything else, such as a pipe or a device, because
 * reading it could block or never end. Does not follow a symbolic link.
 */
export async function readRegular(path: string, maxBytes: number): Promise<string | undefined> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const found = await file.stat()
    return found.isFile() && found.size <= maxBytes ? await file.readFile('utf8') : undefined
  } finally {
    await file.close()
  }
}

/** Returns the file's text; undefined if the file does not exist. */
export async function readIfExists(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

async function withFile(
  path: string,
  flags: string,
  mode: number | undefined,
  use: (file: FileHandle) => Promise<unknown>,
): Promise<void> {
  const file = await open(path, flags, mode)
  try {
    await use(file)
  } finally {
    await file.close()
  }
}
