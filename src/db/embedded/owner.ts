/**
 * Ensures that only one program at a time owns a data directory, with a kernel lock on a file, which the kernel
 * releases even if the owner is killed.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:fs'
import { childEnv } from '../../lib/child-env.ts'
import { type FileHandle, open, readFile } from 'node:fs/promises'

export class DataDirInUse extends Error {
  constructor(lockFile: string, pid: string) {
    super(`${lockFile} is locked by process ${pid || 'unknown'}: stop that one first, or give this one another --data`)
    this.name = 'DataDirInUse'
  }
}

/**
 * Takes the lock. Node has no flock(2), so the `flock` program (util-linux, on every Debian) locks the open file
 * description that it inherits. The lock lasts until our handle is closed or our process ends. Other children do not
 * inherit the handle (Node opens files with O_CLOEXEC).
 * @throws DataDirInUse naming the pid of the owner
 */
export async function takeOwnership(lockFile: string): Promise<{ release(): Promise<void> }> {
  const handle = await open(lockFile, constants.O_RDWR | constants.O_CREAT, 0o600)
  try {
    if (!(await flock(handle))) throw new DataDirInUse(lockFile, (await readFile(lockFile, 'utf8')).trim())
    await handle.truncate()
    await handle.write(`${process.pid}\n`, 0)
  } catch (error) {
    await handle.close()
    throw error
  }
  return { release: () => handle.close() }
}

async function flock(handle: FileHandle): Promise<boolean> {
  const child = spawn('flock', ['--exclusive', '--nonblock', '3'], {
    stdio: ['ignore', 'ignore', 'ignore', handle.fd],
    env: childEnv('flock'),
  })
  const [code] = await once(child, 'exit')
  return code === 0
}
