/** Common form of all commands that call the API: each calls it and returns the text to print. */
import { Argument, Command, Option } from 'commander'
import type { Terminal } from './progress.ts'
import type { Access, AccessFlags } from './session.ts'
import { out } from './terminal.ts'

export interface Answer {
  /** Value printed with `--json`; undefined if the command has already printed it. */
  readonly json: unknown
  /** Text printed without `--json`; nothing is printed if it is empty. */
  readonly text: string
  /** Exit code of the command. Default: 0. */
  readonly code?: number
}

export type Flags = Readonly<Record<string, string | boolean | number | readonly string[] | undefined>>

export interface Call extends Access {
  /** Arguments in the order of `usage`; missing ones are empty. */
  readonly args: readonly string[]
  /** Values of the last argument if `usage` declares it as `[name...]`. */
  readonly rest: readonly string[]
  readonly flags: Flags
  readonly terminal: Terminal
  /** Signal that is aborted on Ctrl-C. */
  readonly signal: AbortSignal
}

export interface Verb {
  /** Name and arguments of the command: `name <required> [optional] [rest...]`. */
  readonly usage: string
  readonly says: string
  /** Flags of the command, as `[flags, description]` in commander's syntax. */
  readonly options?: readonly (readonly [flags: string, description: string])[]
  readonly example?: string
  readonly aliases?: readonly string[]
  /** Set if everything after the arguments, including flags, is passed to another program. */
  readonly passThrough?: true
  run(call: Call): Promise<Answer>
}

/**
 * Returns the arguments for another program. Removes the `--` that commander leaves if an argument of this command
 * precedes it.
 */
export function passedOn(
  { usage, passThrough }: Pick<Verb, 'usage' | 'passThrough'>,
  rest: readonly string[],
): readonly string[] {
  const hasOwn = usage.split(' ').length > 2
  return passThrough && hasOwn && rest[0] === '--' ? rest.slice(1) : rest
}

/** Creates a command. @throws Error with the API's message and the invalid fields, one per line */
export function verb(given: Verb): Command {
  const [name = '', ...operands] = given.usage.split(' ')
  const made = new Command(name).description(given.says)
  for (const operand of operands) made.addArgument(new Argument(operand))
  for (const [flags, description] of given.options ?? []) made.addOption(new Option(flags, description))
  for (const alias of given.aliases ?? []) made.alias(alias)
  if (given.example) made.addHelpText('after', `\nExample:\n  $ ${given.example.replaceAll('\n', '\n  $ ')}`)
  if (given.passThrough) made.passThroughOptions()
  return made
    .addOption(new Option('--url <url>', 'URL of the API (MOTE_URL)'))
    .addOption(new Option('--token <token>', 'an access token (MOTE_TOKEN)'))
    .addOption(new Option('-p, --project <slug>', 'the project to act in (MOTE_PROJECT)'))
    .option('--json', 'print the result as JSON')
    .action(async (...all: unknown[]) => {
      const command = all.at(-1)
      if (!(command instanceof Command)) throw new Error('BUG: commander calls actions with the command last')
      await perform(given, command, all.slice(0, -2))
    })
}

async function perform(given: Verb, command: Command, values: readonly unknown[]): Promise<void> {
  const flags = command.opts<Flags & AccessFlags>()
  const { access } = await import('./session.ts')
  const { createTerminal } = await import('./progress.ts')
  const stop = new AbortController()
  const interrupt = () => stop.abort(new Interrupted())
  process.once('SIGINT', interrupt)
  try {
    const rest = values.find(Array.isArray) ?? []
    const call = {
      ...(await access(flags)),
      args: values.filter(value => !Array.isArray(value)).map(value => (typeof value === 'string' ? value : '')),
      rest: passedOn(given, rest.map(String)),
      flags,
      terminal: createTerminal(),
      signal: stop.signal,
    }
    const answer = await given.run(call).catch((cause: unknown) => {
      throw explained(cause, call.url)
    })
    const text = flags.json ? (JSON.stringify(answer.json) ?? '') : answer.text
    if (text !== '') out(`${text}\n`)
    if (answer.code) process.exitCode = answer.code
  } finally {
    process.off('SIGINT', interrupt)
  }
}

/** Thrown on Ctrl-C; the exit code is 130, as in shells. */
export class Interrupted extends Error {
  constructor() {
    super('Interrupted.')
    this.name = 'Interrupted'
  }
}

/** Advice for the user, by the HTTP status of a response. */
const adviceFor: Readonly<Record<string, (message: string) => string[]>> = {
  401: () => ['  Sign in again: mote login'],
  // Only the general message needs advice. Other messages of 404 responses name the missing resource.
  404: message =>
    message === 'Not found.' ? ['  Check the names that you gave, --app and --project: mote apps list'] : [],
}

/** Converts an error of the API or the network to a message with advice. */
export function explained(cause: unknown, url: string): unknown {
  if (!(cause instanceof Error)) return cause
  if (cause.name === 'AbortError' || cause instanceof Interrupted) return new Interrupted()
  if (cause instanceof TypeError && cause.message === 'fetch failed')
    return new Error(
      `No server answers at ${url}. Start it with "mote up", or set another address with --url or MOTE_URL.`,
    )
  if (cause.name !== 'ApiFailure') return cause
  const details: unknown = Reflect.get(cause, 'details')
  const faults = Array.isArray(details) ? details.map(({ field, message }) => `  ${field}: ${message}`) : []
  const advice = adviceFor[String(Reflect.get(cause, 'status'))]?.(cause.message) ?? []
  return new Error([cause.message, ...faults, ...advice].join('\n'))
}

/** Creates a command with subcommands. */
export function noun(name: string, says: string, verbs: readonly Verb[], more: readonly Command[] = []): Command {
  const made = new Command(name).description(says).enablePositionalOptions()
  for (const command of [...verbs.map(verb), ...more]) made.addCommand(command)
  return made
}

/** Parses a whole number from a flag. @throws Error naming the flag */
export function wholeNumber(flags: Flags, name: string): number | undefined {
  const value = flags[name]
  if (value === undefined) return undefined
  const number = Number(value)
  if (Number.isInteger(number)) return number
  throw new Error(`--${name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)} must be a whole number`)
}

export const text = (flags: Flags, name: string): string | undefined => {
  const value = flags[name]
  return typeof value === 'string' ? value : undefined
}

/** Creates the result of a command: JSON for programs, a sentence for people. */
export const said = (json: unknown, sentence: string): Answer => ({ json, text: sentence })

/**
 * Returns the value of a flag with a fixed set of values.
 * @throws Error naming the flag and the allowed values if it has another one
 */
export const oneOf = <const T extends number | string>(
  allowed: readonly T[],
  value: number | string | undefined,
  flag: string,
) => {
  if (value === undefined) return undefined
  const found = allowed.find(candidate => candidate === value)
  if (found === undefined) throw new Error(`--${flag} must be one of ${allowed.join(', ')}`)
  return found
}
