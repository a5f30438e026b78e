/** Repositories of the source host. The installation needs a browser somewhere, not necessarily on this machine. */
import type { Command } from 'commander'
import { listing } from '../output.ts'
import { noun, said, type Verb } from '../verb.ts'

export const sourceHostCommands = (): Command[] => [
  noun('repos', 'Repositories that the integration with the source host may read', [list, connect, confirm]),
]

const list: Verb = {
  usage: 'list',
  says: 'Every repository that can be read',
  aliases: ['ls'],
  async run({ client }) {
    const all = await client.listRepositories()
    const rows = all.map(one => [one.full_name, one.default_branch, one.private ? 'private' : 'public', one.id])
    return said(all, listing(['REPOSITORY', 'BRANCH', 'VISIBILITY', 'ID'], rows, 'No repositories: mote repos connect'))
  },
}

const connect: Verb = {
  usage: 'connect',
  says: 'Print the address where the integration is installed, for a browser on any machine',
  async run({ client }) {
    const begun = await client.installScm({ query: { confirm: true } })
    const url: unknown = typeof begun === 'object' && begun !== null ? Reflect.get(begun, 'url') : undefined
    return said(begun, `Open this in a browser, then: mote repos confirm <the confirmation that it shows>\n\n${url}`)
  },
}

const confirm: Verb = {
  usage: 'confirm <confirmation>',
  says: 'Bind the installation to the project, with what the browser shows at the end',
  async run({ client, args }) {
    const [confirmation = ''] = args
    return said(await client.confirmScm({ body: { confirmation } }), 'The integration is installed: mote repos list')
  },
}
