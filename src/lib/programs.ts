import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { searchPath } from './child-env.ts'

/** Returns the path of a program in the PATH or the sbin directories; undefined if it is not installed. */
export async function findProgram(name: string): Promise<string | undefined> {
  const dirs = searchPath().split(delimiter)
  for (const path of dirs.filter(Boolean).map(dir => join(dir, name))) {
    const usable = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (usable) return path
  }
  return undefined
}

/** Returns whether a program is in the PATH or the sbin directories. */
export async function hasProgram(name: string): Promise<boolean> {
  return (await findProgram(name)) !== undefined
}
