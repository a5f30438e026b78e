/** The `mote` command. Each command is a file; what it needs is imported when it runs, so that `--help` stays quick. */
import { Command } from 'commander'
import { productVersion } from '../lib/version.ts'
import { bashCompletion } from './bash-completion.ts'
import { adminCommands } from './commands/admin.ts'
import { appCommands } from './commands/app.ts'
import { buildCommands } from './commands/build.ts'
import { databaseCommands } from './commands/database.ts'
import { demoCommand } from './commands/demo.ts'
import { deployCommands } from './commands/deploy.ts'
import { doctorCommand } from './commands/doctor.ts'
import { domainCommands } from './commands/domain.ts'
import { hostCommands } from './commands/host.ts'
import { installCommand } from './commands/install.ts'
import { imageCommands } from './commands/image.ts'
import { kernelCommands } from './commands/kernel.ts'
import { programCommands } from './commands/programs.ts'
import { projectCommands } from './commands/project.ts'
import { sessionCommands } from './commands/session.ts'
import { storageCommands } from './commands/storage.ts'
import { vmCommands } from './commands/vm.ts'
import { Interrupted } from './verb.ts'

const mote = new Command('mote')
  .description('A microVM cloud you can run yourself')
  .version(productVersion)
  // An option behind a command is that command's: images have versions, too.
  .enablePositionalOptions()
  .showHelpAfterError('(add --help for the options)')
  .addHelpText('after', '\nExit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.')

const groups: Readonly<Record<string, readonly Command[]>> = {
  'Your apps': [...sessionCommands(), ...deployCommands(), ...buildCommands(), ...appCommands(), ...vmCommands()],
  'Data and settings': [...storageCommands(), ...databaseCommands(), ...domainCommands(), ...projectCommands()],
  'Run a cloud': [
    ...[...programCommands(), demoCommand(), doctorCommand(), hostCommands(), adminCommands()],
    ...[installCommand(), imageCommands(), kernelCommands()],
  ],
}
for (const [heading, commands] of Object.entries(groups))
  for (const command of commands) mote.addCommand(command.helpGroup(`${heading}:`))

// Shells ask with `complete`; a person with `mote complete bash`.
const [, , asked, shell] = process.argv
if (asked === 'complete' && shell === 'bash') mote.addCommand(printed('complete', bashCompletion))
else if (asked === 'complete') (await import('@bomb.sh/tab/commander')).default(mote)
mote.addHelpText('after', 'Completion: source <(mote complete bash), or zsh, fish.')
throwInsteadOfExit(mote)

try {
  await mote.parseAsync(process.argv)
} catch (cause) {
  process.exitCode = report(cause)
}

function printed(name: string, text: string): Command {
  return new Command(name).argument('[shell]').action(() => void process.stdout.write(text))
}

/** Commands that are added do not inherit it; without it wrong usage ends the process with code 1. */
function throwInsteadOfExit(command: Command): void {
  command.exitOverride()
  for (const inner of command.commands) throwInsteadOfExit(inner)
}

function report(cause: unknown): number {
  if (cause instanceof Interrupted) {
    process.stderr.write(`${cause.message}\n`)
    return 130
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
  process.stderr.write(`${chain.length > 0 ? chain.join('\n  because: ') : String(cause)}\n`)
  return 1
}
