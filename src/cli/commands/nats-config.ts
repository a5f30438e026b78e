/** Prints a configuration for nats-server in which each program has only the permissions that it needs. */
import { randomBytes } from 'node:crypto'
import { Command } from 'commander'
import { out } from '../terminal.ts'

interface Flags {
  readonly address: string
  readonly gateway: string
}

/** Generates new passwords at each call, so that no database has to store them. */
export const natsConfig = () =>
  new Command('nats-config')
    .description('Print a configuration for nats-server, with new users for the control planes and the gateways')
    .option('--address <host:port>', 'address at which all programs reach the server', 'nats.example:4222')
    .option('--gateway <id>', 'id of the gateways in their user name', '1')
    .addHelpText('after', '\nExample:\n  $ mote admin nats-config --address 10.0.0.5:4222 > /etc/nats-server.conf')
    .action(async ({ address, gateway }: Flags) => {
      const { natsAuthorization, permissionsFor } = await import('../../bus/permissions.ts')
      const port = /:(\d+)$/.exec(address)?.[1]
      if (port === undefined) throw new Error(`--address: "${address}" is not a host with a port, e.g. 10.0.0.5:4222`)
      const roles = [{ kind: 'control' }, { kind: 'gateway', id: gateway }] as const
      const users = roles.map(role => ({ role, password: randomBytes(24).toString('base64url') }))
      const urls = users.map(({ role, password }) => `nats://${permissionsFor(role).user}:${password}@${address}`)
      const head = [
        `# Control planes: NATS_URL=${urls[0]}`,
        `# Gateways: NATS_URL=${urls[1]}`,
        '# Hosts: mote host add <name> prints a user for the list below.',
        `listen: "0.0.0.0:${port}"`,
        'jetstream { store_dir: "/var/lib/nats" }',
      ]
      out(`${head.join('\n')}\n${natsAuthorization(users)}`)
    })
