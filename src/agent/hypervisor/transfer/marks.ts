import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { writeFileAtomic } from '../../../lib/files.ts'

/**
 * Marks in the VM's directory for an agent that restarts during a migration. `arriving`: the VM has not run on this
 * host yet and must not be started; `left`: this host has given up the VM, which must never run here again.
 */
export type Mark = 'arriving' | 'left'

const fileOf = (dir: string, mark: Mark) => join(dir, `move.${mark}`)

/** Writes the mark. It is durable once the promise resolves. */
export async function setMark(dir: string, mark: Mark): Promise<void> {
  await writeFileAtomic(fileOf(dir, mark), '')
}

export function hasMark(dir: string, mark: Mark): boolean {
  return existsSync(fileOf(dir, mark))
}

export async function clearMark(dir: string, mark: Mark): Promise<void> {
  await rm(fileOf(dir, mark), { force: true })
}
