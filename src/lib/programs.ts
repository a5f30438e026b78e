import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { delimiter, join } from 'node:path'

/** Whether a program of that name is on the PATH; the sbin directories count even where PATH of a user lacks them. */
export async function hasProgram(name: string): Promise<boolean> {
  const dirs = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin']
  const checks = dirs.filter(Boolean).map(dir => access(join(dir, name), constants.X_OK))
  return Promise.any(checks).then(
    () => true,
    () => false,
  )
}
