import { enableCompileCache } from 'node:module'
import { join, resolve } from 'node:path'
import { homeDir } from '../lib/home.ts'
import type { ProgramSettings } from './settings.ts'

/**
 * Keeps compiled code between starts, in a directory of this account alone: whoever could write there could run as us.
 * Importing the control plane takes 0.8 s of CPU with it and 1.5 s without, and a program that was killed is away as long.
 * Does nothing where it cannot be written.
 */
export function keepCompiledCode({ cache }: Pick<ProgramSettings, 'cache'>): void {
  enableCompileCache(join(cache ? resolve(cache) : join(homeDir(), '.cache', 'mote'), 'compiled'))
}
