/**
 * LUKS containers that QEMU opens (qemu-img(1); on-disk format version 1). Creating them needs neither device mapper
 * nor root.
 */
import { randomUUID } from 'node:crypto'
import { open, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CommandError, run } from '../../lib/exec.ts'
import { makeEmpty } from './ext4.ts'

/**
 * Time for key stretching. The minimum is used: for random keys, stretching adds no security and would slow down every
 * start.
 */
const stretchMs = 10
/**
 * A directory in memory (shm_overview(7)), in which the key is passed to qemu-img. Any user can see arguments, and
 * qemu-img cannot read the key from a socket on stdin.
 */
const memoryDir = '/dev/shm'

/**
 * Creates an encrypted container with an ext4 file system that is empty or has the content of a directory. The key's
 * base64 text is the passphrase, which must be UTF-8. Only blocks that the file system wrote are encrypted and stored.
 * All other blocks remain holes. Reading a hole yields noise, but the file system never reads one.
 */
export async function makeLuks(file: string, sizeMib: number, key: string, content?: string): Promise<void> {
  const plain = `${file}.plain`
  const keyFile = join(memoryDir, `mote-${randomUUID()}`)
  const secret = ['--object', `secret,id=key,file=${keyFile}`]
  try {
    await writeFile(keyFile, key, { mode: 0o600, flag: 'wx' })
    await rm(plain, { force: true })
    await makeEmpty(plain, sizeMib, content)
    await writeFile(file, '', { mode: 0o600, flag: 'wx' })
    const options = ['-o', `key-secret=key,iter-time=${stretchMs}`]
    await measured(() => run('qemu-img', ['create', '-q', '-f', 'luks', ...secret, ...options, file, `${sizeMib}M`]))
    const target = `driver=luks,key-secret=key,file.driver=file,file.filename=${file}`
    await run('qemu-img', [
      'convert',
      ...secret,
      '-n',
      '--target-is-zero',
      '-f',
      'raw',
      '--target-image-opts',
      plain,
      target,
    ])
  } finally {
    await rm(keyFile, { force: true })
    await rm(plain, { force: true })
  }
}

const measurements = 5
/**
 * Repeats the creation if qemu-img cannot measure the time for key stretching: CPU clocks may jump on a busy or paused
 * host (crypto/pbkdf.c).
 */
async function measured(act: () => Promise<unknown>): Promise<void> {
  for (let n = 1; ; n++) {
    try {
      await act()
      return
    } catch (error) {
      const isInaccurate = error instanceof CommandError && error.stderr.includes('accurate CPU usage')
      if (!isInaccurate || n === measurements) throw error
    }
  }
}

/**
 * Returns the length of a container's header, which is the offset of its content: `payload-offset`, in sectors, at byte
 * 104 (LUKS1 On-Disk Format 1.2.3, figure 1).
 */
export async function luksHeaderBytes(file: string): Promise<number> {
  const handle = await open(file, 'r')
  try {
    const { buffer } = await handle.read(Buffer.alloc(108), 0, 108, 0)
    if (buffer.toString('latin1', 0, 4) !== 'LUKS') throw new Error(`${file} is no LUKS container`)
    return buffer.readUInt32BE(104) * 512
  } finally {
    await handle.close()
  }
}
