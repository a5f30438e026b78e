/** Commands for the environment variables and the firewall rules of an app. */
import type { Command } from 'commander'
import { appFlag, appOf } from '../folder.ts'
import { importEnv, pullEnv } from './env-file.ts'
import { envHistory, envRollback } from './env-group.ts'
import { pairOf, valueOf } from './env-pair.ts'
import { age, listing } from '../output.ts'
import { noun, said, type Verb, wholeNumber } from '../verb.ts'

export const settingCommands = (): Command[] => [
  noun('env', 'Environment variables and secrets of an app; changes apply from the next deployment', [
    listEnv,
    setEnv,
    unsetEnv,
    importEnv,
    pullEnv,
    envHistory,
    envRollback,
  ]).alias('secrets'),
  noun('rules', 'Firewall rules of an app', [listRules, addRule, deleteRule]),
]

const listEnv: Verb = {
  usage: 'list',
  says: 'List the variables of the app; values of secrets are never shown',
  aliases: ['ls'],
  options: [appFlag],
  async run(call) {
    const all = await call.client.listAppEnv({ app_name: await appOf(call) })
    return said(
      all,
      listing(
        ['NAME', 'VALUE', 'CHANGED'],
        all.map(one => [one.name, one.value ?? '(secret)', age(one.updated_at)]),
        'No variables are set.',
      ),
    )
  },
}

const setEnv: Verb = {
  usage: 'set <name=value...>',
  says: 'Set secrets of the app; name=- reads the value from standard input',
  options: [appFlag, ['--plain', 'set values that members of the project can read, like those of mote.toml']],
  example: 'mote env set LOG_LEVEL=debug --app web\nmote env set API_KEY=- < key.txt',
  async run(call) {
    const app_name = await appOf(call)
    for (const pair of call.rest) {
      const [name, given] = pairOf(pair)
      const body = { value: await valueOf(given), secret: call.flags.plain !== true }
      await call.client.putAppEnv({ app_name, name, body })
    }
    return said({ set: call.rest.length }, 'Set. VMs get the variables with the next deployment: mote deploy')
  },
}

const unsetEnv: Verb = {
  usage: 'unset <name...>',
  says: 'Remove variables of the app',
  options: [appFlag],
  async run(call) {
    const app_name = await appOf(call)
    for (const name of call.rest) await call.client.deleteAppEnv({ app_name, name })
    return said({ unset: call.rest.length }, 'Removed. The change applies from the next deployment: mote deploy')
  },
}

const listRules: Verb = {
  usage: 'list',
  says: 'List the security rules of the app in the order in which they apply',
  aliases: ['ls'],
  options: [appFlag],
  async run(call) {
    const all = await call.client.listSecurityRules({ app_name: await appOf(call) })
    const rows = all.map(one => [one.priority, one.action, one.protocol, portsOf(one), one.id])
    const none = "No rules: only the gateway and the project's own network can connect."
    return said(all, listing(['PRIORITY', 'ACTION', 'PROTOCOL', 'PORTS', 'ID'], rows, none))
  },
}

const addRule: Verb = {
  usage: 'add <allow|deny> <tcp|udp|icmp|any> [ports]',
  says: 'Add a security rule to the app; it applies to running VMs within a second',
  options: [
    appFlag,
    ['--priority <number>', 'rules with lower numbers apply first; by default the rule comes after all others'],
  ],
  example: 'mote rules add allow tcp 5432 --app web\nmote rules add deny udp 1-1024 --app web',
  async run(call) {
    const [actionText = '', protocolText = '', ports = ''] = call.args
    const action = (['allow', 'deny'] as const).find(name => name === actionText)
    const protocol = (['tcp', 'udp', 'icmp', 'any'] as const).find(name => name === protocolText)
    if (!action || !protocol)
      throw new Error('A rule has the form: allow or deny, then tcp, udp, icmp or any, then ports.')
    const [first = '', last = first] = ports === '' ? (protocol === 'icmp' ? ['0'] : ['0', '65535']) : ports.split('-')
    const body = {
      action,
      protocol,
      priority: wholeNumber(call.flags, 'priority'),
      port_start: wholeNumber({ ports: first }, 'ports') ?? 0,
      port_end: wholeNumber({ ports: last }, 'ports') ?? 0,
    }
    const rule = await call.client.createSecurityRule({ app_name: await appOf(call), body })
    return said(rule, `Rule ${rule.id} has priority ${rule.priority}.`)
  },
}

const deleteRule: Verb = {
  usage: 'delete <id>',
  says: 'Remove a security rule',
  options: [appFlag],
  async run(call) {
    const [rule_id = ''] = call.args
    const answer = await call.client.deleteSecurityRule({ app_name: await appOf(call), rule_id })
    return said(answer, 'Removed the rule.')
  },
}

const portsOf = ({ port_start: first, port_end: last }: { readonly port_start: number; readonly port_end: number }) =>
  first === last ? first : `${first}-${last}`
