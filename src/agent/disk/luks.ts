/** LUKS containers as QEMU opens them (qemu-img(1), cryptsetup's on-disk format 1): no device mapper, no root. */
import { rm, truncate, writeFile } from 'node:fs/promises'
import { run } from '../../lib/exec.ts'
import { emptyFileSystem } from './dir-pool.ts'

/** Keys are random: stretching them makes nothing safer and every start slower. */
const stretchMs = 10

/**
 * Makes a container with an empty ext4 in it. The key, base64, comes over stdin: arguments can be read by everybody.
 * Only what the file system wrote is encrypted and stored; the rest is a hole that reads as noise, and the file system
 * never looks at it.
 */
export async function makeLuks(file: string, sizeMib: number, key: string): Promise<void> {
  const plain = `${file}.plain`
  const secret = ['--object', 'secret,id=key,file=/dev/stdin,format=base64']
  try {
    await writeFile(plain, '', { mode: 0o600, flag: 'wx' })
    await truncate(plain, sizeMib * 2 ** 20)
    await run('mke2fs', emptyFileSystem(plain))
    await writeFile(file, '', { mode: 0o600, flag: 'wx' })
    const options = ['-o', `key-secret=key,iter-time=${stretchMs}`]
    await run('qemu-img', ['create', '-q', '-f', 'luks', ...secret, ...options, file, `${sizeMib}M`], { input: key })
    const target = `driver=luks,key-secret=key,file.driver=file,file.filename=${file}`
    const copy = ['-n', '--target-is-zero', '-f', 'raw', '--target-image-opts', plain, target]
    await run('qemu-img', ['convert', ...secret, ...copy], { input: key })
  } finally {
    await rm(plain, { force: true })
  }
}
