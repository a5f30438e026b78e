/** Commands for the TCP services of an app: public ports that lead to ports of the app. */
import type { Command } from 'commander'
import type { PutTcpServiceRequest } from '../../client/index.ts'
import { appFlag, appOf } from '../folder.ts'
import { listing } from '../output.ts'
import { noun, said, type Verb } from '../verb.ts'

export const serviceCommands = (): Command[] => [
  noun('services', 'Public TCP ports that lead to ports of an app', [list, set, remove]),
]

const list: Verb = {
  usage: 'list',
  says: 'List the TCP services of the app with their addresses',
  aliases: ['ls'],
  options: [appFlag],
  async run(call) {
    const all = await call.client.listTcpServices({ app_name: await appOf(call) })
    const rows = all.map(one => [one.name, one.port, one.tls === 'sni' ? 'sni' : '', one.address])
    return said(all, listing(['NAME', 'PORT', 'TLS', 'ADDRESS'], rows, 'No services: mote services set <name> <port>'))
  },
}

const set: Verb = {
  usage: 'set <name> <port>',
  says: 'Open a public port that leads to a TCP port of the app, or change the port of the app',
  options: [
    appFlag,
    [
      '--tls <kind>',
      '"sni": the gateway terminates TLS on a shared port; "none": a separate port, passed on unchanged',
    ],
  ],
  example: 'mote services set mqtt 1883 --app broker --tls sni',
  async run(call) {
    const [service_name = '', given = ''] = call.args
    const port = Number(given)
    if (!Number.isInteger(port)) throw new Error(`"${given}" is not a port. Give a number from 1 to 65535.`)
    const { tls } = call.flags
    if (tls !== undefined && tls !== 'sni' && tls !== 'none') throw new Error('--tls must be "sni" or "none".')
    const body: PutTcpServiceRequest = tls === undefined ? { port } : { port, tls }
    const service = await call.client.putTcpService({ app_name: await appOf(call), service_name, body })
    return said(
      service,
      `${service.address} leads to port ${service.port}${service.tls === 'sni' ? ', with TLS' : ''}.`,
    )
  },
}

const remove: Verb = {
  usage: 'delete <name>',
  says: 'Delete a TCP service: closes its public port and all connections to it',
  options: [appFlag],
  async run(call) {
    const [service_name = ''] = call.args
    const answer = await call.client.deleteTcpService({ app_name: await appOf(call), service_name })
    return said(answer, `Deleted the service ${service_name}.`)
  },
}
