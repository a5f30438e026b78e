import { readFile } from 'node:fs/promises'
import { preloadLibrary } from './preload.ts'

/**
 * Returns the path of the compiled private-memory.c. It has no effect unless one of its environment variables is set.
 */
export const privateMemoryLibrary = (cacheDir: string): Promise<string> =>
  preloadLibrary(cacheDir, new URL('./private-memory.c', import.meta.url))

/** Returns the environment of a QEMU that maps `memoryFile` privately, so that it cannot change the file. */
export async function privateMemoryEnv(cacheDir: string, memoryFile: string): Promise<Record<string, string>> {
  return { LD_PRELOAD: await privateMemoryLibrary(cacheDir), MOTE_PRIVATE_MEMORY: memoryFile }
}

/**
 * Memory file in the arguments of a QEMU with `memoryNeedsName`. Only private-memory.c makes it possible to open it.
 */
export const sharedMemoryFile = '/nonexistent/memory'

/** Returns the environment of a QEMU whose `sharedMemoryFile` is a memfd. */
export async function sharedMemoryEnv(cacheDir: string): Promise<Record<string, string>> {
  return { LD_PRELOAD: await privateMemoryLibrary(cacheDir), MOTE_SHARED_MEMORY: sharedMemoryFile }
}

/**
 * Checks that the process maps the file privately. A broken installation may fail to preload private-memory.c with only
 * a warning; QEMU would then write to the memory of all VMs that share the file.
 * @throws Error if any mapping of the file is shared, or none exists
 */
export async function assertPrivate(pid: number, memoryFile: string): Promise<void> {
  const lines = (await readFile(`/proc/${pid}/maps`, 'utf8')).split('\n').filter(line => line.endsWith(memoryFile))
  if (lines.length > 0 && lines.every(line => line.split(' ')[1]?.endsWith('p'))) return
  throw new Error('QEMU did not map the memory privately: the library private-memory.so was not preloaded')
}
