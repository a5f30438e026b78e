/** Commands that import the variables of an app from a `.env` file, and export them to one. */
import { readFile, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { everyItem } from '../../client/index.ts'
import { agree } from '../ask.ts'
import { appFlag, appOf } from '../folder.ts'
import { said, text, type Verb } from '../verb.ts'

const defaultFile = '.env'

export const importEnv: Verb = {
  usage: 'import <file>',
  says: 'Set every variable of a .env file in the app; - reads the standard input',
  options: [appFlag, ['--plain', 'set values that members of the project can read, like those of mote.toml']],
  example: 'mote env import .env --app web\ncat .env | mote env import - --app web',
  async run(call) {
    const app_name = await appOf(call)
    const [file = ''] = call.args
    const { envEntries } = await import('../../compose/env-entries.ts')
    const given = file === '-' ? await readInput() : await readFile(file, 'utf8')
    // Parse the whole file before setting variables, so that an invalid line prevents all changes.
    const entries = envEntries(given, file === '-' ? 'standard input' : file)
    for (const { name, value } of entries)
      await call.client.putAppEnv({ app_name, name, body: { value, secret: call.flags.plain !== true } })
    const done = `Set ${entries.length} variables of ${app_name}. VMs get them with the next deployment: mote deploy`
    return said({ set: entries.map(({ name }) => name) }, entries.length === 0 ? 'The file has no variables.' : done)
  },
}

/** Reads standard input as text. */
export async function readInput(): Promise<string> {
  let all = ''
  for await (const chunk of process.stdin.setEncoding('utf8')) all += String(chunk)
  return all
}

export const pullEnv: Verb = {
  usage: 'pull',
  says: 'Write the variables of the app into a .env file; values of secrets cannot be read, so they become comments',
  options: [
    appFlag,
    ['-o, --output <file>', 'file to write (default .env)'],
    ['-y, --yes', 'replace the file without asking'],
  ],
  example: 'mote env pull --app web\nmote env pull --output .env.local --yes',
  async run(call) {
    const app_name = await appOf(call)
    const file = text(call.flags, 'output') ?? defaultFile
    const all = await Array.fromAsync(everyItem(query => call.client.listAppEnv({ app_name, query })))
    if (existsSync(file) && call.flags.yes !== true && !(await agree(`Replace ${file}?`)))
      throw new Error(`${file} was not changed.`)
    const plain = all.flatMap(({ name, value }) => (value === null ? [] : [assignment(name, value)]))
    const secrets = all.filter(({ value }) => value === null).map(({ name }) => name)
    const lines = [
      `# Variables of the app ${app_name}, from mote env pull.`,
      ...plain,
      ...(secrets.length > 0 ? ['# Secrets, whose values cannot be read:', ...secrets.map(name => `# ${name}=`)] : []),
    ]
    await writeFile(file, `${lines.join('\n')}\n`, { mode: 0o600 })
    const lacking = secrets.length > 0 ? ` Secrets cannot be read, and are comments: ${secrets.join(', ')}` : ''
    return said({ file, variables: plain.length, secrets }, `Wrote ${plain.length} variables to ${file}.${lacking}`)
  },
}

/**
 * Formats a variable as a line of a `.env` file. Single quotes keep every character but a single quote; double quotes
 * need escapes.
 */
export const assignment = (name: string, value: string): string =>
  /^[\w./:@+,-]*$/.test(value)
    ? `${name}=${value}`
    : value.includes("'")
      ? `${name}="${value.replaceAll(/[\\"$]/g, one => `\\${one}`).replaceAll('\r', '\\r')}"`
      : `${name}='${value}'`
