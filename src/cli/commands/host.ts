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
    .option('--json', 'print the result as JSON')
    .action(async (name: string, flags: { natsUrl: string; json?: boolean }) => {
      const { natsAuthorization, natsUsers, permissionsFor } = await import('../../bus/permissions.ts')
      const hostId = newId()
      const role = { kind: 'host', id: hostId } as const
      const { user } = permissionsFor(role)
      const password = randomBytes(24).toString('base64url')
      const authorization = natsAuthorization([{ role, password }])
      const url = new URL(flags.natsUrl)
      url.username = user
      url.password = password
      const set = [`NATS_URL='${url.href}'`, `MOTE_HOST_ID=${hostId}`, `MOTE_HOST_NAME=${name}`]
      const command = `mote install agent ${set.map(one => `--set ${one}`).join(' ')}`
      const users = natsUsers([{ role, password }])
      if (flags.json) out(`${JSON.stringify({ name, hostId, user, password, users, authorization, command })}\n`)
      else
        out(
          `Host ${name} has the id ${hostId}.\n\n1. Add this user to the users of your nats-server configuration (mote admin nats-config makes one), and reload\n   it: nats-server --signal reload. Hosts join over NATS only: start mote up with --nats-url.\n\n${users}\n\n2. On the host, with Mote in /opt/mote, run as root:\n\n  ${command}\n\nIt joins with its first heartbeat. The password is not stored anywhere else.\n`,
        )
    })
  for (const command of fleetCommands()) host.addCommand(command)
  return host
}
