/** Builds of an app and their logs. */
import type { Command } from 'commander'
import { appFlag, appOf } from '../folder.ts'
import { age, listing, status } from '../output.ts'
import { noun, said, type Verb, wholeNumber } from '../verb.ts'

export const buildCommands = (): Command[] => [noun('builds', 'Builds of an app from its repository', [list, log])]

const list: Verb = {
  usage: 'list',
  says: 'Newest first',
  aliases: ['ls'],
  options: [appFlag],
  async run(call) {
    const all = await call.client.listBuilds({ app_name: await appOf(call) })
    const rows = all.map(one => [
      ...[one.job_id, status(one.status), one.git_commit_hash.slice(0, 10), one.git_branch],
      ...[one.trigger_source, age(one.created_at), one.error?.split('\n')[0] ?? ''],
    ])
    const head = ['DEPLOYMENT', 'STATUS', 'COMMIT', 'BRANCH', 'BY', 'AGE', 'ERROR']
    return said(all, listing(head, rows, 'No builds yet: mote deploy'))
  },
}

const log: Verb = {
  usage: 'log [deployment]',
  says: 'Show the log of a build, by default the newest; exits with 1 if the build failed',
  options: [appFlag, ['-n, --tail <lines>', 'number of newest lines (1000)']],
  example: 'mote builds log --app web',
  async run(call) {
    const app_name = await appOf(call)
    const [newest] = call.args[0] ? [] : await call.client.listBuilds({ app_name, query: { limit: 1 } })
    const build_id = call.args[0] || newest?.job_id
    if (!build_id) throw new Error(`${app_name} has no builds yet.`)
    const tail = wholeNumber(call.flags, 'tail') ?? 1000
    const found = await call.client.getBuildLog({ app_name, build_id, query: { tail } })
    const text = [...found.lines.map(({ line }) => line), ...(found.error ? [`The build failed: ${found.error}`] : [])]
    return { json: found, text: text.join('\n'), code: found.status === 'failed' ? 1 : 0 }
  },
}
