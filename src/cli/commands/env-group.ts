/** Commands for variables that several apps share, and for the history of variables. */
import type { Command } from 'commander'
import { everyItem, type EnvVersion } from '../../client/index.ts'
import { confirmByName } from '../ask.ts'
import { appFlag, appOf } from '../folder.ts'
import { age, listing } from '../output.ts'
import { noun, said, type Verb } from '../verb.ts'
import { pairOf, valueOf } from './env-pair.ts'

export const envGroupCommands = (): Command[] => [
  noun('env-groups', 'Variables that several apps of the project share; changes apply from the next deployments', [
    list,
    create,
    show,
    set,
    unset,
    attach,
    groupHistory,
    groupRestore,
    remove,
  ]),
]

const list: Verb = {
  usage: 'list',
  says: 'List environment groups with the apps that they are attached to',
  aliases: ['ls'],
  async run({ client }) {
    const all = await Array.fromAsync(everyItem(query => client.listEnvGroups({ query })))
    const rows = all.map(one => [one.name, one.variables, one.apps.join(' '), age(one.created_at)])
    return said(all, listing(['GROUP', 'VARIABLES', 'APPS', 'AGE'], rows, 'No groups: mote env-groups create <name>'))
  },
}

const create: Verb = {
  usage: 'create <group>',
  says: 'Create an environment group without variables',
  example: 'mote env-groups create shared',
  async run({ client, args: [name = ''] }) {
    const group = await client.createEnvGroup({ body: { name } })
    return said(group, `Created the group ${name}. Set its variables: mote env-groups set ${name} NAME=value`)
  },
}

const show: Verb = {
  usage: 'show <group>',
  says: 'List the variables of an environment group; values of secrets are never shown',
  async run({ client, args: [group_name = ''] }) {
    const all = await Array.fromAsync(everyItem(query => client.listEnvGroupVariables({ group_name, query })))
    const rows = all.map(one => [one.name, one.value ?? '(secret)', age(one.updated_at)])
    return said(all, listing(['NAME', 'VALUE', 'CHANGED'], rows, 'No variables are set.'))
  },
}

const next = 'Its apps get the change with their next deployments: mote deploy'

const set: Verb = {
  usage: 'set <group> <name=value...>',
  says: 'Set secrets of an environment group; name=- reads the value from standard input',
  options: [['--plain', 'set values that members of the project can read']],
  example:
    'mote env-groups set shared API_URL=https://api.example.com --plain\nmote env-groups set shared API_KEY=- < key.txt',
  async run({ client, args: [group_name = ''], rest, flags }) {
    for (const pair of rest) {
      const [name, given] = pairOf(pair)
      const body = { value: await valueOf(given), secret: flags.plain !== true }
      await client.putEnvGroupVariable({ group_name, name, body })
    }
    return said({ set: rest.length }, `Set. ${next}`)
  },
}

const unset: Verb = {
  usage: 'unset <group> <name...>',
  says: 'Remove variables of an environment group',
  async run({ client, args: [group_name = ''], rest }) {
    for (const name of rest) await client.deleteEnvGroupVariable({ group_name, name })
    return said({ unset: rest.length }, `Removed. ${next}`)
  },
}

const attach: Verb = {
  usage: 'attach [group...]',
  says: 'Attach exactly these environment groups to the app; if names are equal, variables of the app win, then those of later groups',
  options: [appFlag],
  example: 'mote env-groups attach shared team --app web\nmote env-groups attach --app web',
  async run(call) {
    const app_name = await appOf(call)
    await call.client.setAppEnvGroups({ app_name, body: { groups: [...call.rest] } })
    const now =
      call.rest.length === 0 ? 'has no environment groups' : `has the environment groups ${call.rest.join(', ')}`
    return said({ groups: call.rest }, `${app_name} ${now}. The change applies from the next deployment: mote deploy`)
  },
}

const remove: Verb = {
  usage: 'delete <group>',
  says: 'Delete an environment group that is not attached to any app',
  options: [['-y, --yes', 'skip the confirmation']],
  async run({ client, args: [group_name = ''], flags }) {
    await confirmByName('the group', group_name, flags.yes === true)
    return said(await client.deleteEnvGroup({ group_name }), `The group ${group_name} is deleted.`)
  },
}

const groupHistory: Verb = {
  usage: 'history <group>',
  says: 'List the versions of an environment group: which variables changed, when, and who changed them',
  async run({ client, args: [group_name = ''] }) {
    const all = await Array.fromAsync(everyItem(query => client.listEnvGroupVersions({ group_name, query })))
    return said(all, historyText(all))
  },
}

const groupRestore: Verb = {
  usage: 'rollback <group> <version>',
  says: 'Set the variables of an environment group back to an earlier version',
  example: 'mote env-groups rollback shared 7',
  async run({ client, args: [group_name = '', version = ''] }) {
    const answer = await client.restoreEnvGroupVersion({ group_name, version })
    return said(answer, `The variables of ${group_name} are those of version ${version}. ${next}`)
  },
}

export const envHistory: Verb = {
  usage: 'history',
  says: 'List the versions of the variables of an app: which variables changed, when, and who changed them; never their values',
  options: [appFlag],
  async run(call) {
    const app_name = await appOf(call)
    const all = await Array.fromAsync(everyItem(query => call.client.listAppEnvVersions({ app_name, query })))
    return said(all, historyText(all))
  },
}

export const envRollback: Verb = {
  usage: 'rollback <version>',
  says: 'Set the variables of the app back to an earlier version',
  options: [appFlag],
  example: 'mote env rollback 7 --app web',
  async run(call) {
    const app_name = await appOf(call)
    const [version = ''] = call.args
    const answer = await call.client.restoreAppEnvVersion({ app_name, version })
    const done = `The variables of ${app_name} are those of version ${version}. VMs get them with the next deployment: mote deploy`
    return said(answer, done)
  },
}

function historyText(all: readonly EnvVersion[]): string {
  const rows = all.map(one => [
    one.version,
    [...one.set.map(name => `+${name}`), ...one.removed.map(name => `-${name}`)].join(' '),
    one.restored === null ? '' : `of ${one.restored}`,
    one.author ?? '',
    age(one.created_at),
  ])
  return listing(['VERSION', 'CHANGE', 'ROLLBACK', 'BY', 'AGE'], rows, 'No changes yet.')
}
