/**
 * Provides PostgreSQL programs that the server's account can start, regardless of the checkout's location and the umask
 * under which it was created.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Account } from './account.ts'
import type { PostgresBinaries } from './binaries.ts'

const run = promisify(execFile)

/** Directories that every account can enter and only root can write to. */
const sharedDirs = ['/var/lib/mote', '/opt/mote', '/usr/local/lib/mote'] as const

/**
 * Returns the given programs, or a copy that `account` can start. A checkout in /root is closed to other accounts, and a
 * Linux capability to pass its directories is not enough: initdb calls access(2), which ignores the capabilities of
 * accounts other than root. The copy (60 MB, 0.2 s, made once per version) is shared by all checkouts on the host.
 * @throws Error that says what to do when no directory can hold the copy
 */
export async function reachableBinaries(
  binaries: PostgresBinaries,
  account: Account | undefined,
  dirs: readonly string[] = sharedDirs,
): Promise<PostgresBinaries> {
  if (account === undefined || (await canStart(binaries, account))) return binaries
  const reasons: string[] = []
  for (const dir of dirs) {
    try {
      const copy = { ...binaries, binDir: join(await copyTo(dir, binaries), 'bin') }
      if (await canStart(copy, account)) return copy
      reasons.push(`${dir}: programs there do not start`)
    } catch (error) {
      reasons.push(`${dir}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  throw new Error(
    `PostgreSQL runs as uid ${account.uid}, which cannot start ${join(binaries.binDir, 'postgres')}: move the checkout to a folder that other users can enter, such as /srv, or set DATABASE_URL to a server of your own (tried ${reasons.join('; ')})`,
  )
}

/**
 * Returns whether the account can run `postgres --version` (8 ms). That checks the permissions of all parent
 * directories, mount options such as noexec, and missing libraries at once.
 */
async function canStart({ binDir }: PostgresBinaries, { uid, gid }: Account): Promise<boolean> {
  return run(join(binDir, 'postgres'), ['--version'], { uid, gid, env: {}, cwd: '/' }).then(
    () => true,
    () => false,
  )
}

async function copyTo(dir: string, { binDir, version }: PostgresBinaries): Promise<string> {
  await mkdir(dir, { recursive: true })
  const { uid, mode } = await stat(dir)
  if (uid !== process.getuid?.() || (mode & 0o022) !== 0) throw new Error('others may write to the directory')
  const target = join(dir, `postgresql-${version}`)
  if (await stat(join(target, 'bin', 'postgres')).catch(() => undefined)) return target
  const partial = `${target}.${randomBytes(4).toString('hex')}`
  try {
    await run('cp', ['-a', '--reflink=auto', '--', dirname(binDir), partial])
    await run('chmod', ['-R', 'a+rX,go-w', '--', partial])
    // Another program may have created the copy first; it has the same content.
    await rename(partial, target).catch((error: unknown) => stat(target).catch(() => Promise.reject(error)))
  } finally {
    await rm(partial, { recursive: true, force: true })
  }
  return target
}
