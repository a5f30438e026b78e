/** Finds and reads the `mote.toml` of a folder. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { effectiveFile } from '../appfile/defaults.ts'
import type { EffectiveFile } from '../appfile/effective.ts'
import { appFileName } from '../appfile/name.ts'
import { parseAppFile } from '../appfile/parse.ts'
import { withContents } from './file-contents.ts'
import { text, type Flags } from './verb.ts'

/** Returns the text of the folder's `mote.toml`; undefined if the folder has none. */
export const appFileText = (dir = process.cwd()): Promise<string | undefined> =>
  readFile(join(dir, appFileName), 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined
    throw cause
  })

/**
 * Parses the folder's `mote.toml`. Returns undefined if there is no such file, or if `--app` names another app.
 * @throws AppFileInvalid
 */
export async function fileOfFolder(flags: Flags): Promise<EffectiveFile | undefined> {
  const given = await appFileText()
  if (given === undefined) return undefined
  const file = effectiveFile(parseAppFile(given))
  const app = text(flags, 'app')
  return app === undefined || app === file.app ? withContents(file) : undefined
}

/** Like `fileOfFolder`, for commands that need a `mote.toml`. @throws Error if there is none */
export async function requiredFile(flags: Flags): Promise<EffectiveFile> {
  const file = await fileOfFolder(flags)
  if (file) return file
  throw new Error(
    `There is no ${appFileName} of that app in this folder. mote launch and mote config pull --app <name> write one.`,
  )
}
