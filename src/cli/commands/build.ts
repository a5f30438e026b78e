/** Commands for the builds of an app, their logs and settings. */
import type { Command } from 'commander'
import { type App, type AppBuildRequest, shortFailure } from '../../client/index.ts'
import { appFlag, appOf } from '../folder.ts'
import { age, facts, listing, status } from '../output.ts'
import { type Flags, noun, said, text, type Verb, wholeNumber } from '../verb.ts'

export const buildCommands = (): Command[] => [
  noun('builds', 'Builds of an app from its repository', [list, log, settings]),
]

const list: Verb = {
  usage: 'list',
  says: 'List the builds of the app, newest first',
  aliases: ['ls'],
  options: [appFlag],
  async run(call) {
    const all = await call.client.listBuilds({ app_name: await appOf(call) })
    const rows = all.map(one => [
      ...[one.job_id, status(one.status), one.git_commit_hash.slice(0, 10), one.git_branch],
      ...[one.trigger_source, age(one.created_at), one.error === null ? '' : shortFailure(one.error)],
    ])
    const head = ['DEPLOYMENT', 'STATUS', 'COMMIT', 'BRANCH', 'BY', 'AGE', 'ERROR']
    return said(all, listing(head, rows, 'No builds yet: mote deploy'))
  },
}

const log: Verb = {
  usage: 'log [deployment]',
  says: 'Show the log of a build, by default the newest; exits with 1 if the build failed',
  options: [appFlag, ['-n, --tail <lines>', 'number of newest lines (default 1000)']],
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

const settings: Verb = {
  usage: 'settings',
  says: 'Show or change how the app is built: each given option replaces that setting; changes apply from the next build',
  options: [
    appFlag,
    ['--dockerfile <path>', 'path of the Dockerfile in the source; "" for the one in the top directory'],
    ['--arg <name=value...>', 'build arguments; "" for none'],
    ['--env <name...>', 'variables of the app that the build gets like arguments; "" for none'],
    ['--secret <name...>', 'variables of the app that the build gets as secrets; "" for none'],
  ],
  example: 'mote builds settings --app web --dockerfile docker/web.Dockerfile --arg VERSION=1.4 --secret NPM_TOKEN',
  async run({ client, flags }) {
    const app_name = await appOf({ flags })
    const app = await client.getApp({ app_name })
    const build = changedSettings(flags, app)
    const { build: now } = build ? await client.updateApp({ app_name, body: { port: app.port, build } }) : app
    const shown = facts({
      dockerfile: now.dockerfile || 'the one at the top of the source, if there is one',
      args: Object.entries(now.args)
        .map(([name, value]) => `${name}=${value}`)
        .join(' '),
      env: now.env.join(' '),
      secrets: now.secrets.join(' '),
    })
    return said(now, shown)
  },
}

/**
 * Returns the build settings with those that flags give; undefined if no flag gives one.
 * @throws Error if an argument has no value
 */
function changedSettings(flags: Flags, { build }: App): AppBuildRequest | undefined {
  const [dockerfile, args, env, secrets] = [text(flags, 'dockerfile'), ...['arg', 'env', 'secret'].map(listOf(flags))]
  if ([dockerfile, args, env, secrets].every(one => one === undefined)) return undefined
  return {
    dockerfile: dockerfile ?? build.dockerfile,
    args: args ? Object.fromEntries(args.map(argumentOf)) : build.args,
    env: env ?? build.env,
    secrets: secrets ?? build.secrets,
  }
}

const listOf = (flags: Flags) => (name: string) => {
  const given = flags[name]
  return Array.isArray(given) ? given.map(String).filter(one => one !== '') : undefined
}

function argumentOf(given: string): readonly [string, string] {
  const at = given.indexOf('=')
  if (at < 1) throw new Error(`--arg ${given} must be NAME=value.`)
  return [given.slice(0, at), given.slice(at + 1)]
}
