import { readFile, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { sep } from 'node:path'
import { run } from '../../lib/exec.ts'

/**
 * Shows a file or device of another file system, where no link can lead: a device gets a node of its own, a file is
 * bind-mounted. Needs root. Taken away with `unbind`.
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

/** Removes what was shown under this name, bound or linked. Idempotent. */
export async function unbind(path: string): Promise<void> {
  await unbindBelow(path)
  await rm(path, { force: true })
}

/** Nothing at or below the path is a mount any more: it can be removed without touching what was shown there. */
export async function unbindBelow(path: string): Promise<void> {
  for (const mounted of await mountedBelow(path)) await run('umount', [mounted])
}

/** Mount points at or below the path, newest first. The kernel names them without symbolic links. */
export async function mountedBelow(path: string): Promise<string[]> {
  const root = await realpath(path).catch(() => path)
  return (await mountPoints()).filter(one => one === root || one.startsWith(root + sep))
}

/** Newest first. Blanks and backslashes are written as octal numbers (proc_pid_mountinfo(5)). */
async function mountPoints(): Promise<string[]> {
  const lines = (await readFile('/proc/self/mountinfo', 'utf8')).trim().split('\n').toReversed()
  const decode = (text: string) =>
    text.replace(/\\(\d{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)))
  return lines.map(line => decode(line.split(' ')[4] ?? ''))
}

/** As makedev(3) of glibc puts them together; the numbers here are far below 2^31. */
function deviceNumbers(rdev: number): readonly [number, number] {
  return [(rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xfff00)]
}
