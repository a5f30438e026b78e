/** Parses an app's variables from the text of a `.env` file, for the command line and the dashboard. */
import { readEnvFile } from './env-file.ts'
import { type Fault, Invalid } from './faults.ts'

export interface EnvEntry {
  readonly name: string
  readonly value: string
}

const validName = /^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/

/**
 * Returns the variables in the order of the file. A later line replaces an earlier one with the same name.
 * @param file name of the file, for error messages
 * @throws Invalid with the line of every error
 */
export function envEntries(text: string, file: string): readonly EnvEntry[] {
  const faults: Fault[] = []
  const found = readEnvFile(text, file, {
    get: () => undefined,
    missing: (name, at) =>
      faults.push({
        at,
        field: '',
        message: `The value uses $${name}, which no earlier line sets. For a literal dollar sign use single quotes`,
      }),
  })
  for (const [name, value] of found) {
    const at = { file, line: lineOf(text, name), column: 1 }
    if (value === undefined) faults.push({ at, field: '', message: `${name} has no value: write ${name}=value` })
    if (name === 'PORT')
      faults.push({
        at,
        field: '',
        message: 'PORT is set by the platform. Remove the line. To change the port of the app, use mote deploy --port',
      })
    else if (!validName.test(name))
      faults.push({
        at,
        field: '',
        message: `The name ${name} may only have letters, digits, underscores, dots and dashes`,
      })
  }
  if (faults.length > 0) throw new Invalid(faults.slice(0, 20))
  return [...found].map(([name, value = '']) => ({ name, value }))
}

const lineOf = (text: string, name: string) =>
  text.split('\n').findIndex(line =>
    line
      .trimStart()
      .replace(/^export\s+/, '')
      .startsWith(name),
  ) + 1 || 1
