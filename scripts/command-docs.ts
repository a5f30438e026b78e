/** Writes docs/commands.md from the definitions of the commands: `node scripts/command-docs.ts`. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command, Option } from 'commander'
import { moteCommand } from '../src/cli/tree.ts'

const page = join(import.meta.dirname, '..', 'docs', 'commands.md')

const intro = `# Commands

\`node scripts/command-docs.ts\` writes this page from the definitions of the commands; do not edit it. [Command line](cli.md) says what all commands have in common: how a
command finds its server, project and app, its exit codes, and how to use it in scripts.`

/** Returns the text of docs/commands.md for the current commands. */
export function currentCommandsPage(): string {
  const mote = moteCommand()
  const groups = Map.groupBy(mote.commands, command => command.helpGroup().replace(/:$/, ''))
  const leaves = [...mote.commands].flatMap(command => leavesOf(command, 'mote'))
  const common = commonOptions(leaves.map(({ command }) => command))
  const parts = [...groups].map(([heading, commands]) => {
    const sections = commands.flatMap(command => leavesOf(command, 'mote')).map(leaf => sectionOf(leaf, common))
    return [`## ${heading}`, ...sections].join('\n\n')
  })
  const shared = `## Options of commands that call the API\n\n${tableOf([...common.values()])}`
  return `${[intro, shared, ...parts].join('\n\n')}\n`
}

interface Leaf {
  readonly path: string
  readonly command: Command
}

/** Returns all commands that have no subcommands, each with its full name, such as `mote apps list`. */
function leavesOf(command: Command, before: string): Leaf[] {
  const path = `${before} ${command.name()}`
  const below = command.commands.flatMap(one => leavesOf(one, path))
  return below.length > 0 ? below : [{ path, command }]
}

/** Returns the options that more than half of the commands have; docs/commands.md lists them only once. */
function commonOptions(commands: readonly Command[]): Map<string, Option> {
  const all = Map.groupBy(
    commands.flatMap(command => command.options),
    keyOf,
  )
  return new Map(
    [...all].flatMap(([key, [option, ...more]]) =>
      option && more.length + 1 > commands.length / 2 ? [[key, option] as const] : [],
    ),
  )
}

const keyOf = ({ flags, description }: Option) => `${flags}\n${description}`

function sectionOf({ path, command }: Leaf, common: ReadonlyMap<string, Option>): string {
  const own = command.options.filter(option => !option.hidden && !common.has(keyOf(option)))
  const aliases = command.aliases()
  const operands = command.usage().replace('[options]', '').trim()
  const lines = [`### ${path}`, `${command.description()}.`]
  if (operands !== '') lines.push(`Arguments: \`${operands}\``)
  if (aliases.length > 0) lines.push(`Alias: ${aliases.map(name => `\`${name}\``).join(', ')}`)
  if (own.length > 0) lines.push(tableOf(own))
  const examples = textAfterHelp(command)
  if (examples !== '') lines.push(`\`\`\`sh\n${examples}\n\`\`\``)
  return lines.join('\n\n')
}

function tableOf(options: readonly Option[]): string {
  const cell = (text: string) => text.replaceAll('|', '\\|')
  const rows = options.map(option => {
    const hasDefault = ['string', 'number'].includes(typeof option.defaultValue)
    const meaning = `${option.description}${hasDefault ? ` (default: ${option.defaultValue})` : ''}`
    return `| \`${cell(option.flags)}\` | ${cell(meaning)} |`
  })
  return `| option | meaning |\n|---|---|\n${rows.join('\n')}`
}

/** Returns the examples at the end of a command's help text, without the shell prompt. */
function textAfterHelp(command: Command): string {
  let text = ''
  command.configureOutput({ writeOut: written => (text += written) })
  command.outputHelp()
  const [, examples = ''] = text.split(/^Examples?:\n/m)
  return examples
    .split('\n')
    .map(line => line.replace(/^ {2}(?:\$ )?/, ''))
    .join('\n')
    .trim()
}

if (process.argv[1] === import.meta.filename) writeFileSync(page, currentCommandsPage())
