/** Registers every command. Commands import their dependencies when they run, to keep `--help` fast. */
import { Command } from 'commander'
import { productVersion } from '../lib/version.ts'
import { activityCommands } from './commands/activity.ts'
import { adminCommands } from './commands/admin.ts'
import { appFileCommands } from './commands/app-files.ts'
import { appCommands } from './commands/app.ts'
import { buildCommands } from './commands/build.ts'
import { configCommands } from './commands/config.ts'
import { composeCommands } from './commands/compose.ts'
import { databaseCommands } from './commands/database.ts'
import { demoCommand } from './commands/demo.ts'
import { deployCommands } from './commands/deploy.ts'
import { runscCommands } from './commands/runsc.ts'
import { doctorCommand } from './commands/doctor.ts'
import { domainCommands } from './commands/domain.ts'
import { folderAppCommands } from './commands/folder-app.ts'
import { hostCommands } from './commands/host.ts'
import { installCommand } from './commands/install.ts'
import { imageCommands } from './commands/image.ts'
import { kernelCommands } from './commands/kernel.ts'
import { programCommands } from './commands/programs.ts'
import { projectCommands } from './commands/project.ts'
import { sessionCommands } from './commands/session.ts'
import { jobCommands } from './commands/job.ts'
import { registryCommands } from './commands/registry.ts'
import { runCommands } from './commands/run.ts'
import { serviceCommands } from './commands/service.ts'
import { envGroupCommands } from './commands/env-group.ts'
import { settingCommands } from './commands/setting.ts'
import { sshKeyCommands } from './commands/ssh-key.ts'
import { sourceHostCommands } from './commands/source-host.ts'
import { storageCommands } from './commands/storage.ts'
import { templateCommands } from './commands/template.ts'
import { vmCommands } from './commands/vm.ts'
import { vmFileCommands } from './commands/vm-files.ts'
import { vmSessionCommands } from './commands/vm-session.ts'

export function moteCommand(): Command {
  const mote = new Command('mote')
    .description('A self-hosted microVM cloud')
    .version(productVersion)
    // Options after a subcommand belong to it: `mote image build postgres` has its own `--version`, for example.
    .enablePositionalOptions()
    .showHelpAfterError('(add --help for the options)')
    .addHelpText('after', '\nExit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.')

  const groups: Readonly<Record<string, readonly Command[]>> = {
    'Your apps': [
      ...sessionCommands(),
      ...folderAppCommands(),
      ...deployCommands(),
      configCommands(),
      composeCommands(),
      templateCommands(),
      ...buildCommands(),
      ...appCommands(),
      ...vmSessionCommands(),
      ...runCommands(),
      ...jobCommands(),
      ...vmFileCommands(),
      ...vmCommands(),
    ],
    'Data and settings': [
      ...storageCommands(),
      ...databaseCommands(),
      ...domainCommands(),
      ...serviceCommands(),
      ...sourceHostCommands(),
      ...registryCommands(),
      ...settingCommands(),
      ...envGroupCommands(),
      ...appFileCommands(),
      ...sshKeyCommands(),
      ...projectCommands(),
      ...activityCommands(),
    ],
    'Run a cloud': [
      ...[...programCommands(), demoCommand(), doctorCommand(), hostCommands(), adminCommands()],
      ...[installCommand(), imageCommands(), kernelCommands(), runscCommands()],
    ],
  }
  for (const [heading, commands] of Object.entries(groups))
    for (const command of commands) mote.addCommand(command.helpGroup(`${heading}:`))
  return mote
}
