import { enableCompileCache } from 'node:module'
import { join, resolve } from 'node:path'
import { homeDir } from '../lib/home.ts'
import type { ProgramSettings } from './settings.ts'

/**
 * Caches compiled code between starts, in a directory that only this account can write to: anyone else who could write
 * there could run code as this account. Importing the control plane takes 0.8 s of CPU with the cache and 1.5 s
 * without, which is also the downtime after a crash. Does nothing if the directory is not writable.
 */
export function keepCompiledCode({ cache }: Pick<ProgramSettings, 'cache'>): void {
  enableCompileCache(join(cache ? resolve(cache) : join(homeDir(), '.cache', 'mote'), 'compiled'))
}
