import { readFile } from 'node:fs/promises'
import { preloadLibrary } from './preload.ts'

/** private-memory.c, which does nothing in a QEMU that is not told of a file. */
export const privateMemoryLibrary = (cacheDir: string): Promise<string> =>
  preloadLibrary(cacheDir, new URL('./private-memory.c', import.meta.url))

/** The environment of a QEMU that maps `memoryFile` privately: private-memory.c keeps it from changing the file. */
export async function privateMemoryEnv(cacheDir: string, memoryFile: string): Promise<Record<string, string>> {
  return { LD_PRELOAD: await privateMemoryLibrary(cacheDir), MOTE_PRIVATE_MEMORY: memoryFile }
}

/** What a QEMU with `memoryNeedsName` is told that its memory is. Without private-memory.c it cannot be made. */
export const sharedMemoryFile = '/nonexistent/memory'

/** The environment of a QEMU whose memory is to be a memfd under that name. */
export async function sharedMemoryEnv(cacheDir: string): Promise<Record<string, string>> {
  return { LD_PRELOAD: await privateMemoryLibrary(cacheDir), MOTE_SHARED_MEMORY: sharedMemoryFile }
}

/**
 * The memory that the process maps of this file is its own. Without private-memory.c, which a broken installation may leave
 * out with no more than a warning, it would write into everybody's.
 * @throws Error when it is not
 */
export async function assertPrivate(pid: number, memoryFile: string): Promise<void> {
  const lines = (await readFile(`/proc/${pid}/maps`, 'utf8')).split('\n').filter(line => line.endsWith(memoryFile))
  if (lines.length > 0 && lines.every(line => line.split(' ')[1]?.endsWith('p'))) return
  throw new Error('QEMU did not map the memory privately: its preloaded part was not loaded')
}
