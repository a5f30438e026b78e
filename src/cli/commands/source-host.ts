/**
 * Commands for repositories of the source host, such as GitHub. Its integration is installed in a browser, which may
 * run on another computer.
 */
import type { Command } from 'commander'
import { listing } from '../output.ts'
import { noun, said, type Verb } from '../verb.ts'

export const sourceHostCommands = (): Command[] => [
  noun('repos', 'Repositories that the source host integration can read', [list, connect, confirm]),
]

const list: Verb = {
  usage: 'list',
  says: 'List the git repositories that the GitHub integration can read',
  aliases: ['ls'],
  async run({ client }) {
    const all = await client.listRepositories()
    const rows = all.map(one => [one.full_name, one.default_branch, one.private ? 'private' : 'public', one.id])
    return said(all, listing(['REPOSITORY', 'BRANCH', 'VISIBILITY', 'ID'], rows, 'No repositories: mote repos connect'))
  },
}

const connect: Verb = {
  usage: 'connect',
  says: 'Print the URL at which you install the GitHub integration, in any browser',
  async run({ client }) {
    const begun = await client.installScm({ query: { confirm: true } })
    const url: unknown = typeof begun === 'object' && begun !== null ? Reflect.get(begun, 'url') : undefined
    return said(begun, `Open this in a browser, then: mote repos confirm <the confirmation that it shows>\n\n${url}`)
  },
}

const confirm: Verb = {
  usage: 'confirm <confirmation>',
  says: 'Connect the installed GitHub App to the project, with the confirmation that the browser shows',
  async run({ client, args }) {
    const [confirmation = ''] = args
    return said(await client.confirmScm({ body: { confirmation } }), 'The integration is installed: mote repos list')
  },
}
