/** Commands for files in a running VM. */
import type { Command } from 'commander'
import type { FileAction } from '../../client/index.ts'
import { printableLine } from '../../lib/printable.ts'
import type { FileChange } from '../file-session.ts'
import { appFlag, appOf } from '../folder.ts'
import { age, bytes, listing } from '../output.ts'
import { out } from '../terminal.ts'
import { type Answer, type Call, noun, said, text, type Verb, verb, wholeNumber } from '../verb.ts'
import { deploymentFlag, deploymentOf } from './app.ts'

export const vmFileCommands = (): Command[] => [
  verb(copy),
  noun('files', "Files in the app's VM", [list, watch, makeDirectory, move, remove]),
]

const target = [
  appFlag,
  deploymentFlag,
  ['--vm <id>', 'the VM; by default the first running one'],
  ['-u, --user <name>', "user in the VM; by default the image's"],
] as const

async function place(call: Call, app?: string) {
  const app_name = app || (await appOf(call))
  const { flags } = call
  return { app_name, job_id: await deploymentOf(call, app_name), vm_id: text(flags, 'vm'), user: text(flags, 'user') }
}

const copy: Verb = {
  usage: 'cp <from> <to>',
  says: 'Copy files between this computer and a VM; <app>:<path> is in the VM, - is standard input or output',
  options: target,
  example: 'mote cp dump.sql web:/data/\nmote cp web:/var/log ./logs\nmote cp web:/etc/hosts - | head',
  async run(call) {
    const [from = '', to = ''] = call.args
    const [source, goal] = [remoteOf(from), remoteOf(to)]
    const { copyIn, copyOut } = await import('../copy.ts')
    if (source && !goal) await copyOut(call, await place(call, source.app), source.path, to)
    else if (goal && !source) await copyIn(call, await place(call, goal.app), from, goal.path)
    else throw new Error('One of the two paths must be in a VM, as <app>:<path>.')
    return said({ from, to }, '')
  },
}

/** Parses `<app>:<path>`, or `:<path>` for the app of the folder. */
function remoteOf(given: string): { readonly app: string; readonly path: string } | undefined {
  const [, app = '', path = ''] = /^([a-z0-9-]*):(.+)$/.exec(given) ?? []
  return path === '' ? undefined : { app, path }
}

const list: Verb = {
  usage: 'list <path>',
  says: 'List a directory in the VM of the app',
  aliases: ['ls'],
  options: [...target, ['--depth <levels>', 'number of directory levels to list; 1 by default']],
  async run(call) {
    const [path = ''] = call.args
    const { listFiles } = await import('../file-session.ts')
    const all = await listFiles(call, await place(call), path, wholeNumber(call.flags, 'depth') ?? 1)
    const rows = all
      .toSorted((a, b) => (a.path < b.path ? -1 : 1))
      .map(one => [
        ...[one.mode.padStart(4, '0'), one.type === 'file' ? bytes(one.bytes) : one.type],
        ...[age(one.modifiedAt.toISOString()), one.target === '' ? one.path : `${one.path} -> ${one.target}`],
      ])
    return said(all, listing(['MODE', 'SIZE', 'CHANGED', 'PATH'], rows, 'No files.'))
  },
}

const watch: Verb = {
  usage: 'watch <path>',
  says: 'Print changes of a file or directory in the VM of the app, until Ctrl-C',
  options: [...target, ['-r, --recursive', 'also watch all subdirectories']],
  example: 'mote files watch -r /srv --json | while read -r change; do ...; done',
  async run(call) {
    const [path = ''] = call.args
    const { watchFiles } = await import('../file-session.ts')
    const recursive = call.flags.recursive === true
    await watchFiles(call, await place(call), { path, recursive }, change =>
      out(`${call.flags.json ? JSON.stringify(change) : sentenceOf(change)}\n`),
    )
    return { json: undefined, text: `${path} is gone.` }
  },
}

function sentenceOf({ event, path = '', to, directories }: FileChange): string {
  switch (event) {
    case 'watching':
      return `Watching ${directories} ${directories === 1 ? 'directory' : 'directories'}.`
    case 'limit':
      return `There are more than ${directories} directories: the rest is not watched.`
    case 'overflow':
      return 'There were more changes than could be read: some are missing here.'
    default:
      return `${event.padEnd(7)} ${printableLine(path)}${to === undefined ? '' : ` -> ${printableLine(to)}`}`
  }
}

const makeDirectory: Verb = {
  usage: 'mkdir <path>',
  says: 'Make a directory in the VM of the app, with its parents',
  options: target,
  run: call => act(call, { action: 'mkdir', path: call.args[0] ?? '' }, `${call.args[0]} exists.`),
}

const move: Verb = {
  usage: 'move <from> <to>',
  says: 'Rename a file or directory in the VM of the app',
  aliases: ['mv'],
  options: target,
  run: call => act(call, { action: 'move', path: call.args[0] ?? '', to: call.args[1] }, `${call.args[1]} exists.`),
}

const remove: Verb = {
  usage: 'delete <path>',
  says: 'Delete a file or an empty directory in the VM of the app',
  aliases: ['rm'],
  options: [...target, ['-r, --recursive', 'also delete a directory with its content']],
  run: call =>
    act(
      call,
      { action: 'remove', path: call.args[0] ?? '', recursive: call.flags.recursive === true },
      `${call.args[0]} is deleted.`,
    ),
}

async function act(call: Call, file: FileAction, sentence: string): Promise<Answer> {
  const { onFiles } = await import('../file-session.ts')
  await onFiles(call, await place(call), file)
  return said(file, sentence)
}
