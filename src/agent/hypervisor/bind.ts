import { readFile, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { sep } from 'node:path'
import { run } from '../../lib/exec.ts'

/**
 * Makes a file or device of another file system, which cannot be hard-linked, available under `to`: a device gets its
 * own node, a file is bind-mounted. Needs root. `unbind` removes it.
 */
export async function bind(from: string, to: string): Promise<void> {
  const what = await stat(from)
  if (what.isBlockDevice()) {
    const [major, minor] = deviceNumbers(what.rdev)
    await run('mknod', ['-m', '600', to, 'b', String(major), String(minor)])
    return
  }
  await writeFile(to, '', { mode: 0o600, flag: 'wx' })
  try {
    await run('mount', ['--bind', from, to])
  } catch (error) {
    await rm(to, { force: true })
    throw error
  }
}

/** Removes the mount, node or link at this path. Idempotent. */
export async function unbind(path: string): Promise<void> {
  await unbindBelow(path)
  await rm(path, { force: true })
}

/** Unmounts everything at or below the path, so that deleting the path does not delete the mounted files. */
export async function unbindBelow(path: string): Promise<void> {
  for (const mounted of await mountedBelow(path)) await run('umount', [mounted])
}

/** Lists mount points at or below the path, newest first. The kernel reports them with symbolic links resolved. */
export async function mountedBelow(path: string): Promise<string[]> {
  const root = await realpath(path).catch(() => path)
  return (await mountPoints()).filter(one => one === root || one.startsWith(root + sep))
}

/** Lists all mount points, newest first. Blanks and backslashes are octal escapes (proc_pid_mountinfo(5)). */
async function mountPoints(): Promise<string[]> {
  const lines = (await readFile('/proc/self/mountinfo', 'utf8')).trim().split('\n').toReversed()
  const decode = (text: string) =>
    text.replace(/\\(\d{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)))
  return lines.map(line => decode(line.split(' ')[4] ?? ''))
}

/** Splits a device number that glibc's makedev(3) composed; the numbers here are far below 2^31. */
function deviceNumbers(rdev: number): readonly [number, number] {
  return [(rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xfff00)]
}
