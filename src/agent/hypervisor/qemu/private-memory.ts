import { readFile } from 'node:fs/promises'
import { preloadLibrary } from './preload.ts'

/**
 * Returns the path of the library compiled from private-memory.c. Without one of its environment variables, the library
 * has no effect.
 */
export const privateMemoryLibrary = (cacheDir: string): Promise<string> =>
  preloadLibrary(cacheDir, new URL('./private-memory.c', import.meta.url))

/** Returns the environment of a QEMU that maps `memoryFile` privately, so that QEMU cannot change the file. */
export async function privateMemoryEnv(cacheDir: string, memoryFile: string): Promise<Record<string, string>> {
  return { LD_PRELOAD: await privateMemoryLibrary(cacheDir), MOTE_PRIVATE_MEMORY: memoryFile }
}

/**
 * Name of the memory file in the arguments of a QEMU with `memoryNeedsName`. The file does not exist; only
 * private-memory.c makes QEMU's attempt to open it succeed.
 */
export const sharedMemoryFile = '/nonexistent/memory'

/** Returns the environment with which QEMU gets a memfd when it opens `sharedMemoryFile`. */
export async function sharedMemoryEnv(cacheDir: string): Promise<Record<string, string>> {
  return { LD_PRELOAD: await privateMemoryLibrary(cacheDir), MOTE_SHARED_MEMORY: sharedMemoryFile }
}

/**
 * Checks that QEMU's process maps the file privately. A broken installation may fail to preload private-memory.c with
 * only a warning; QEMU would then write to the memory of all VMs that share the file.
 * @throws Error if any mapping of the file is shared, or none exists
 */
export async function assertPrivate(pid: number, memoryFile: string): Promise<void> {
  const lines = (await readFile(`/proc/${pid}/maps`, 'utf8')).split('\n').filter(line => line.endsWith(memoryFile))
  if (lines.length > 0 && lines.every(line => line.split(' ')[1]?.endsWith('p'))) return
  throw new Error('QEMU did not map the memory privately: the library private-memory.so was not preloaded')
}
