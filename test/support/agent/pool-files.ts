/** Reads and writes the contents of volumes. */
import { createHash } from 'node:crypto'
import { open, readFile, stat } from 'node:fs/promises'

export const mib = 2 ** 20

export async function fill(file: string, from: number, to: number): Promise<void> {
  const handle = await open(file, 'r+')
  try {
    for (let at = from; at < to; at += mib) await handle.write(Buffer.alloc(mib, `${at} `), 0, mib, at)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export async function write(file: string, at: number, content: string): Promise<void> {
  const handle = await open(file, 'r+')
  try {
    await handle.write(content, at)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export async function bytesAt(file: string, at: number, length: number): Promise<Buffer> {
  const handle = await open(file, 'r')
  try {
    return (await handle.read(Buffer.alloc(length), 0, length, at)).buffer
  } finally {
    await handle.close()
  }
}
export const text = async (file: string, length: number) => (await bytesAt(file, 0, length)).toString()
export const digest = async (file: string) =>
  createHash('sha256')
    .update(await readFile(file))
    .digest('hex')
export const contentSize = async (file: string) => (await stat(file)).size
