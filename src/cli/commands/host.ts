import { randomBytes } from 'node:crypto'
import { Command } from 'commander'
import { newId } from '../../lib/ids.ts'
import { fleetCommands } from './host-fleet.ts'
import { out } from '../terminal.ts'

export function hostCommands(): Command {
  const host = new Command('host').description('Hosts of the cloud').enablePositionalOptions()
  host
    .command('add')
    .argument('<name>', 'name of the host')
    .description('Prepare a new host: its id, a NATS user with minimal permissions, and the command to run on the host')
    .option('--nats-url <url>', 'NATS URL for the host', 'nats://nats.example:4222')
    .option('--json', 'as JSON')
    .action(async (name: string, flags: { natsUrl: string; json?: boolean }) => {
      const { natsAuthorization, permissionsFor } = await import('../../bus/permissions.ts')
      const hostId = newId()
      const role = { kind: 'host', id: hostId } as const
      const { user } = permissionsFor(role)
      const password = randomBytes(24).toString('base64url')
      const authorization = natsAuthorization([{ role, password }])
      const url = new URL(flags.natsUrl)
      url.username = user
      url.password = password
      const command = `NATS_URL='${url.href}' mote agent --host-id ${hostId} --host-name ${name}`
      if (flags.json) out(`${JSON.stringify({ name, hostId, user, password, authorization, command })}\n`)
      else
        out(
          `Host ${name} has the id ${hostId}.\n\n1. Add its user to the users of your nats-server configuration, and reload it:\n\n${authorization}\n\n2. On the host, run:\n\n  ${command}\n\nIt joins with its first heartbeat. The password is not stored anywhere else.\n`,
        )
    })
  for (const command of fleetCommands()) host.addCommand(command)
  return host
}
