import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { writeFileAtomic } from '../../../lib/files.ts'

/**
 * Which side of a move a VM's directory is on, for an agent that starts in the middle of it. `arriving`: what is here has
 * not been let run yet and must not be; `left`: it was let run elsewhere.
 */
export type Mark = 'arriving' | 'left'

const fileOf = (dir: string, mark: Mark) => join(dir, `move.${mark}`)

/** On the disk when it resolves. */
export async function setMark(dir: string, mark: Mark): Promise<void> {
  await writeFileAtomic(fileOf(dir, mark), '')
}

export function hasMark(dir: string, mark: Mark): boolean {
  return existsSync(fileOf(dir, mark))
}

export async function clearMark(dir: string, mark: Mark): Promise<void> {
  await rm(fileOf(dir, mark), { force: true })
}
