/** Commands for files that are written into the VMs of an app before its program starts. */
import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { everyItem, type PutAppFileRequest } from '../../client/index.ts'
import { appFlag, appOf } from '../folder.ts'
import { age, bytes, listing } from '../output.ts'
import { noun, said, text, type Verb } from '../verb.ts'

export const appFileCommands = (): Command[] => [
  noun(
    'app-files',
    'Files that the VMs of an app get before their program starts; changes apply from the next deployment',
    [list, show, set, unset],
  ),
]

const list: Verb = {
  usage: 'list',
  says: 'List the files that Mote writes into the VMs of the app; contents of secrets are never shown',
  aliases: ['ls'],
  options: [appFlag],
  async run(call) {
    const app_name = await appOf(call)
    const all = await Array.fromAsync(everyItem(query => call.client.listAppFiles({ app_name, query })))
    const rows = all.map(one => [
      one.path,
      one.mode,
      one.variable === null ? (one.secret ? '(secret)' : bytes(one.size_bytes)) : `value of ${one.variable}`,
      age(one.updated_at),
    ])
    return said(
      all,
      listing(['PATH', 'MODE', 'CONTENT', 'CHANGED'], rows, 'No files: mote app-files set <path> <file>'),
    )
  },
}

const show: Verb = {
  usage: 'show <path>',
  says: 'Print the content of a file of the app',
  options: [appFlag],
  async run(call) {
    const [path = ''] = call.args
    const found = await call.client.getAppFileContent({ app_name: await appOf(call), query: { path } })
    if (found.content === null) throw new Error(`${path} is a secret, whose content is never shown.`)
    return said(found, Buffer.from(found.content, 'base64').toString().replace(/\n$/, ''))
  },
}

const set: Verb = {
  usage: 'set <path> [file]',
  says: 'Add a file to the VMs of the app, with the content of a file of this computer; - reads the standard input',
  options: [
    appFlag,
    ['--variable <name>', 'variable of the app whose value is the content of the file'],
    ['--mode <digits>', 'octal mode of the file (default 0644)'],
    ['--secret', 'never show the content again'],
  ],
  example:
    'mote app-files set /etc/web/web.conf web.conf --app web\nmote app-files set /run/tls.key --variable TLS_KEY --mode 0400',
  async run(call) {
    const app_name = await appOf(call)
    const [path = '', file = ''] = call.args
    const variable = text(call.flags, 'variable')
    if ((file === '') === (variable === undefined))
      throw new Error('Name either a file of this computer or --variable.')
    const mode = text(call.flags, 'mode')
    const given = variable === undefined ? { content: await contentOf(file) } : { variable }
    const body: PutAppFileRequest = { path, mode, ...given, secret: call.flags.secret === true }
    await call.client.putAppFile({ app_name, body })
    return said({ set: path }, `Set ${path}. VMs get it with the next deployment: mote deploy`)
  },
}

async function contentOf(file: string): Promise<string> {
  if (file !== '-') return (await readFile(file)).toString('base64')
  const parts: Buffer[] = []
  for await (const part of process.stdin) parts.push(Buffer.from(part))
  return Buffer.concat(parts).toString('base64')
}

const unset: Verb = {
  usage: 'unset <path...>',
  says: 'Remove files from the VMs of the app',
  options: [appFlag],
  async run(call) {
    const app_name = await appOf(call)
    for (const path of call.rest) await call.client.deleteAppFile({ app_name, query: { path } })
    return said({ unset: call.rest.length }, 'Removed. The change applies from the next deployment: mote deploy')
  },
}
