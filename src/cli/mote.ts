/** Parses the command line and runs the command. */
import { Command } from 'commander'
import { StartFailed } from '../programs/start-failure.ts'
import { bashCompletion } from './bash-completion.ts'
import { readLink } from './folder.ts'
import { moteCommand } from './tree.ts'
import { Interrupted } from './verb.ts'
import { err, out } from './terminal.ts'

// Do not await here: in the bundle, a module that a command loads on demand may import the file with this module. That
// import would wait for the command, and the command for the import.
void main()

async function main(): Promise<void> {
  const mote = moteCommand()
  // Shell completion scripts call `mote complete` with words to complete; users call `mote complete bash`.
  const [, , asked, shell] = process.argv
  if (asked === 'complete' && shell === 'bash') mote.addCommand(printed('complete', bashCompletion))
  else if (asked === 'complete') (await import('@bomb.sh/tab/commander')).default(mote)
  mote.addHelpText('after', 'Completion: source <(mote complete bash), or zsh, fish.')
  throwInsteadOfExit(mote)
  try {
    // Without arguments, `mote` shows the state of the folder's app, or the help if the folder has none.
    const alone = process.argv.length === 2 ? [(await readLink()) ? 'here' : '--help'] : []
    await mote.parseAsync([...process.argv, ...alone])
  } catch (cause) {
    process.exitCode = report(cause)
  }
}

function printed(name: string, text: string): Command {
  return new Command(name).argument('[shell]').action(() => out(text))
}

/**
 * Applies exitOverride to all subcommands, which do not inherit it. Without it, commander exits with code 1, not 2, on
 * wrong usage.
 */
function throwInsteadOfExit(command: Command): void {
  command.exitOverride()
  for (const inner of command.commands) throwInsteadOfExit(inner)
}

function report(cause: unknown): number {
  if (cause instanceof Interrupted || cause instanceof StartFailed) {
    err(`${cause.message}\n`)
    return cause instanceof Interrupted ? 130 : 1
  }
  if (
    cause instanceof Error &&
    'code' in cause &&
    typeof cause.code === 'string' &&
    cause.code.startsWith('commander.')
  )
    return 'exitCode' in cause && cause.exitCode === 0 ? 0 : 2
  const chain: string[] = []
  for (let error: unknown = cause; error instanceof Error; error = error.cause) chain.push(error.message)
  err(`${chain.length > 0 ? chain.join('\n  because: ') : String(cause)}\n`)
  return 1
}
