/** Credentials of the project for image registries. */
import type { Command } from 'commander'
import { age, listing } from '../output.ts'
import { readAll } from '../standard-input.ts'
import { noun, said, text, type Verb } from '../verb.ts'

export const registryCommands = (): Command[] => [
  noun('registry', 'Image registries that the project signs in to', [login, list, logout]),
]

const login: Verb = {
  usage: 'login <host>',
  says: 'Store a user name and password for the private images of a registry',
  options: [
    ['-u, --username <name>', 'user name at the registry; prompts if missing'],
    ['--password-stdin', 'read the password or token from standard input'],
  ],
  example: 'mote registry login ghcr.io -u ada --password-stdin < token.txt',
  async run({ args: [given = ''], client, flags }) {
    const { ask, askSecret } = await import('../ask.ts')
    const username = text(flags, 'username') ?? (await ask('User name', '--username'))
    const password = flags['passwordStdin']
      ? (await readAll(process.stdin)).replace(/\r?\n$/, '')
      : await askSecret('Password or token', '--password-stdin, and the password on the standard input')
    const kept = await client.putRegistryCredential({ body: { host: hostOf(given), username, password } })
    return said(kept, `Images of ${kept.host} are pulled as ${kept.username}. Deploy one: mote deploy --image <image>`)
  },
}

const list: Verb = {
  usage: 'list',
  says: 'List the registries that the project signs in to',
  aliases: ['ls'],
  async run({ client }) {
    const all = await client.listRegistryCredentials({})
    const rows = all.map(one => [one.host, one.username, age(one.updated_at)])
    return said(all, listing(['REGISTRY', 'USER', 'SET'], rows, 'No registries. Sign in to one: mote registry login'))
  },
}

const logout: Verb = {
  usage: 'logout <host>',
  says: 'Delete the credential for a registry; running VMs go on',
  async run({ args: [given = ''], client }) {
    const host = hostOf(given)
    return said(await client.deleteRegistryCredential({ host }), `Images of ${host} are pulled without a password.`)
  },
}

/** Docker also accepts a URL. */
const hostOf = (given: string) => given.replace(/^https?:\/\//, '').replace(/\/.*$/, '')
