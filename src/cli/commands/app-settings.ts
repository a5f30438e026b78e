/** `mote apps set`: settings of an app that concern all its versions. */
import type { UpdateAppRequest } from '../../client/index.ts'
import { appOf } from '../folder.ts'
import { said, text, type Verb } from '../verb.ts'

const strategies = ['rolling', 'one-at-a-time'] as const

export const set: Verb = {
  usage: 'set [name]',
  says: 'Change how new versions of an app start; by default that of this folder',
  options: [['--strategy <strategy>', 'rolling, or one-at-a-time: an old VM ends before a new one starts']],
  example: 'mote apps set web --strategy one-at-a-time',
  async run({ client, args: [name], flags }) {
    const app_name = name || (await appOf({ flags }))
    const strategy = strategyOf(text(flags, 'strategy'))
    const { port } = await client.getApp({ app_name })
    const app = await client.updateApp({ app_name, body: { port, strategy } })
    return said(app, `Changed ${app.name}: the strategy is ${app.strategy}.`)
  },
}

function strategyOf(given: string | undefined): UpdateAppRequest['strategy'] {
  const found = strategies.find(one => one === given)
  if (!found) throw new Error(`Give --strategy: ${strategies.join(' or ')}.`)
  return found
}
