/** The `mote` command. Each command is a file; what it needs is imported when it runs, so that `--help` stays quick. */
import { Command } from 'commander'
import { productVersion } from '../lib/version.ts'
import { adminCommands } from './commands/admin.ts'
import { databaseCommands } from './commands/db.ts'
import { demoCommand } from './commands/demo.ts'
import { hostCommands } from './commands/host.ts'
import { doctorCommand } from './commands/doctor.ts'
import { imageCommands } from './commands/image.ts'
import { kernelCommands } from './commands/kernel.ts'
import { programCommands } from './commands/programs.ts'

const mote = new Command('mote')
  .description('A microVM cloud you can run yourself')
  .version(productVersion)
  // An option behind a command is that command's: images have versions, too.
  .enablePositionalOptions()
  .showHelpAfterError('(add --help for the options)')
  .addHelpText('after', '\nExit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.')

for (const command of [
  ...programCommands(),
  demoCommand(),
  databaseCommands(),
  hostCommands(),
  adminCommands(),
  doctorCommand(),
  imageCommands(),
  kernelCommands(),
])
  mote.addCommand(command)
throwInsteadOfExit(mote)

try {
  await mote.parseAsync(process.argv)
} catch (cause) {
  process.exitCode = report(cause)
}

/** Commands that are added do not inherit it; without it wrong usage ends the process with code 1. */
function throwInsteadOfExit(command: Command): void {
  command.exitOverride()
  for (const inner of command.commands) throwInsteadOfExit(inner)
}

function report(cause: unknown): number {
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
