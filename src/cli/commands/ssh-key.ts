/** Commands for the SSH keys of the account, with which OpenSSH connects to VMs and databases. */
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import type { Command } from 'commander'
import { age, listing } from '../output.ts'
import { noun, said, text, type Verb } from '../verb.ts'

export const sshKeyCommands = (): Command[] => [
  noun('ssh-keys', 'Your SSH keys, for OpenSSH to VMs and databases', [listKeys, addKey, removeKey]),
]

const listKeys: Verb = {
  usage: 'list',
  says: 'List your SSH keys, newest first',
  aliases: ['ls'],
  async run(call) {
    const all = await call.client.listSshKeys({})
    const rows = all.map(one => [one.name, one.fingerprint, age(one.created_at), age(one.last_used_at)])
    return said(
      all,
      listing(['NAME', 'FINGERPRINT', 'ADDED', 'LAST USED'], rows, 'No keys. Add one: mote ssh-keys add'),
    )
  },
}

const addKey: Verb = {
  usage: 'add <file>',
  says: 'Register a public SSH key, for example ~/.ssh/id_ed25519.pub',
  options: [['--name <name>', 'name of the key; by default the name of the file']],
  example: 'mote ssh-keys add ~/.ssh/id_ed25519.pub',
  async run(call) {
    const [file = ''] = call.args
    const public_key = (await readFile(file, 'utf8')).trim()
    if (public_key.includes('PRIVATE KEY'))
      throw new Error(`${file} is a private key. Give the file that ends with .pub.`)
    const name = text(call.flags, 'name') ?? basename(file)
    const key = await call.client.addSshKey({ body: { name, public_key } })
    return said(key, `Added ${key.fingerprint}. For OpenSSH: mote ssh --config >> ~/.ssh/config`)
  },
}

const removeKey: Verb = {
  usage: 'remove <name>',
  says: 'Remove an SSH key by its name',
  aliases: ['rm'],
  async run(call) {
    const [name = ''] = call.args
    const all = await call.client.listSshKeys({})
    const key = all.find(one => one.name === name || one.id === name)
    if (!key) throw new Error(`You have no SSH key named ${name}. List them: mote ssh-keys list`)
    return said(await call.client.removeSshKey({ key_id: key.id }), `Removed ${key.name}.`)
  },
}
