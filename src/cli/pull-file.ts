/** Writes an app's settings into the folder's `mote.toml`. */
import { writeFile } from 'node:fs/promises'
import { effectiveFile } from '../appfile/defaults.ts'
import { appFileName } from '../appfile/name.ts'
import { parseAppFile } from '../appfile/parse.ts'
import type { AppFile } from '../appfile/schema.ts'
import { newFileText, pulledText, withState } from '../appfile/write.ts'
import { appFileText } from './app-file.ts'
import { readState } from '../stack/app-state.ts'
import { type Answer, type Call, said } from './verb.ts'

/**
 * Updates the `mote.toml` of the current directory from the app, or creates it.
 * @throws Error if the file describes another app, or if the app does not exist
 */
export async function pullFile(call: Call, app: string): Promise<Answer> {
  const before = await appFileText()
  const file = before === undefined ? newFile(app, call) : parseAppFile(before)
  if (file.app !== app) throw new Error(`The ${appFileName} of this folder describes ${file.app}, not ${app}.`)
  const state = await readState(call.client, effectiveFile(file))
  if (!state) throw new Error(`There is no app ${app} in this project. List them: mote apps list`)
  const pulled =
    before === undefined
      ? { text: newFileText(withState(file, state.file), call.url), isRewritten: false }
      : await pulledText(before, state.file)
  const secrets = state.secrets.length > 0 ? `\nSecrets are not part of the file: ${state.secrets.join(', ')}` : ''
  if (pulled.text === before) return said({ changed: false }, `${appFileName} matches the app.${secrets}`)
  await writeFile(appFileName, pulled.text)
  const lost = pulled.isRewritten ? ' It was rewritten with only the first comments.' : ''
  return said({ changed: true, secrets: state.secrets }, `Wrote ${appFileName}.${lost}${secrets}`)
}

const newFile = (app: string, { project }: Call): AppFile => (project ? { app, project } : { app })
