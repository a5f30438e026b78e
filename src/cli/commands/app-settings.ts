/** `mote apps set` and `mote apps labels`: where the VMs of an app run, and how new versions replace them. */
import type { App, UpdateAppRequest } from '../../client/index.ts'
import { labelsText, parseLabels } from '../../lib/labels.ts'
import { appOf } from '../folder.ts'
import { listing } from '../output.ts'
import { type Flags, said, text, type Verb } from '../verb.ts'

const strategies = ['rolling', 'one-at-a-time'] as const

export const set: Verb = {
  usage: 'set [name]',
  says: 'Change how new versions of an app start, and on which hosts; by default of the app of this folder',
  options: [
    ['--strategy <strategy>', 'rolling, or one-at-a-time: an old VM ends before a new one starts'],
    [
      '--require <labels>',
      'labels that a host must have, such as region=eu; "" for none. Applies from the next deployment',
    ],
    ['--prefer <labels>', 'labels that hosts should have; "" for none. Applies from the next deployment'],
  ],
  example: 'mote apps set web --strategy one-at-a-time\nmote apps set web --require region=eu --prefer zone=eu-1',
  async run({ client, args: [name], flags }) {
    const app_name = name || (await appOf({ flags }))
    const change = { ...strategyOf(flags), ...(await hostsOf(flags, () => client.getApp({ app_name }))) }
    if (Object.keys(change).length === 0) throw new Error('Give --strategy, --require or --prefer.')
    const { port } = await client.getApp({ app_name })
    const app = await client.updateApp({ app_name, body: { port, ...change } })
    return said(app, `Changed ${app.name}: ${placingText(app)}.`)
  },
}

export const labels: Verb = {
  usage: 'labels',
  says: 'List the labels of hosts by which apps can choose them',
  async run({ client }) {
    const all = await client.listHostLabels()
    const rows = all.map(({ name, values }) => [name, values.join(', ')])
    return said(all, listing(['LABEL', 'VALUES'], rows, 'Hosts have no labels that apps can use.'))
  },
}

/** Formats the rollout strategy and the host labels of an app as text. */
export function placingText({ strategy, hosts }: App): string {
  const wishes = [
    ...(Object.keys(hosts.require).length > 0 ? [`hosts with ${labelsText(hosts.require)}`] : []),
    ...(Object.keys(hosts.prefer).length > 0 ? [`preferably with ${labelsText(hosts.prefer)}`] : []),
  ]
  return [strategy, ...(wishes.length > 0 ? wishes : ['any host'])].join(', ')
}

function strategyOf(flags: Flags): Pick<UpdateAppRequest, 'strategy'> {
  const given = text(flags, 'strategy')
  if (given === undefined) return {}
  const strategy = strategies.find(one => one === given)
  if (!strategy) throw new Error(`Give --strategy ${strategies.join(' or ')}.`)
  return { strategy }
}

/** Returns the host labels to set: those of the flags; without a flag, the app keeps its current labels. */
async function hostsOf(flags: Flags, read: () => Promise<App>): Promise<Pick<UpdateAppRequest, 'hosts'>> {
  const [require, prefer] = [text(flags, 'require'), text(flags, 'prefer')]
  if (require === undefined && prefer === undefined) return {}
  const { hosts: now } = await read()
  return {
    hosts: {
      require: require === undefined ? now.require : { ...parseLabels(require) },
      prefer: prefer === undefined ? now.prefer : { ...parseLabels(prefer) },
    },
  }
}
