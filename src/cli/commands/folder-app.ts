/** Commands for the app of the current folder: show its state, link the folder to an app, delete the app. */
import type { App, Deployment } from '../../client/index.ts'
import { authorOf, everyItem, shortFailure, versionOf } from '../../client/index.ts'
import { appFileName } from '../../appfile/name.ts'
import { choose, confirmByName } from '../ask.ts'
import { appFlag, appOf, readLink } from '../folder.ts'
import { age, facts, status } from '../output.ts'
import { said, type Verb, verb } from '../verb.ts'

export const folderAppCommands = () => [here, link, destroy].map(verb)

const ended = ['failed', 'cancelled', 'stopped', 'superseded', 'deleted']

const here: Verb = {
  usage: 'here',
  says: "Show the state of this folder's app and the next commands, as mote alone does",
  options: [appFlag],
  example: 'mote here\nmote',
  async run(call) {
    const app_name = await appOf(call)
    const { client } = call
    const app = await client.getApp({ app_name }).catch((cause: unknown) => {
      if (cause instanceof Error && Reflect.get(cause, 'status') === 404) return undefined
      throw cause
    })
    if (!app)
      return {
        json: { app: null },
        text: `This folder's app ${app_name} does not exist in the project.\n\n${nextCommands([['mote deploy', 'create and deploy it']])}`,
      }
    const deployments = await client.listDeployments({ app_name, query: { limit: 20 } })
    const serving = deployments.find(one => one.id === app.active_deployment_id)
    const json = { app, serving: serving ?? null, newest: deployments[0] ?? null }
    return said(json, `${stateText(app, serving, deployments[0])}\n\n${nextCommands(stepsFor(app, deployments))}`)
  },
}

function stateText(app: App, serving: Deployment | undefined, newest: Deployment | undefined): string {
  const took = newest?.duration_ms == null ? '' : `, took ${(newest.duration_ms / 1000).toFixed(1)} s`
  const last = newest && `${versionOf(newest)}, ${age(newest.created_at)} ago by ${authorOf(newest)}${took}`
  const state = serving?.status ?? (app.failure === null ? 'not deployed' : 'failed')
  return facts({
    app: app.name,
    state: status(state),
    serves: serving && `${versionOf(serving)}, since ${age(serving.started_at)}`,
    url: app.url,
    health: serving && healthOf(app, serving.status),
    'last deployment': newest && `${status(newest.status)}  ${last}`,
    reason: app.failure === null ? undefined : shortFailure(app.failure),
  })
}

const healthOf = (app: App, state: string) => {
  const check = app.kind === 'web' ? `GET ${app.health_check_path}` : 'its process'
  return state === 'running' ? `passing (${check})` : state === 'unhealthy' ? `failing (${check})` : undefined
}

type Step = readonly [command: string, what: string]

function stepsFor(app: App, deployments: readonly Deployment[]): readonly Step[] {
  const newest = deployments[0]
  const steps: Step[] = []
  if (newest && !ended.includes(newest.status) && newest.id !== app.active_deployment_id)
    steps.push(['mote status', 'see the deployment in progress'])
  if (newest?.status === 'failed') steps.push(['mote logs', 'see why it failed'])
  steps.push(['mote deploy', 'deploy this folder'])
  if (!app.active_deployment_id) return steps
  if (newest?.status !== 'failed') steps.push(['mote logs -f', 'follow the log'])
  if (app.url) steps.push(['mote open', 'open it in the browser'])
  if (deployments.some(one => one.status === 'superseded' || one.status === 'stopped'))
    steps.push(['mote rollback', 'return to the version before'])
  return [...steps, ['mote ssh', 'open a shell in its VM']]
}

const nextCommands = (steps: readonly Step[]) => {
  const width = Math.max(...steps.map(([command]) => command.length))
  return steps.map(([command, what]) => `  ${command.padEnd(width)}  ${what}`).join('\n')
}

const link: Verb = {
  usage: 'link [app]',
  says: `Link this folder to an app: writes the settings of the app into ${appFileName}`,
  example: 'mote link web',
  async run(call) {
    const linked = await readLink()
    const wanted = call.args[0] ?? ''
    if (linked && (wanted === '' || linked.app === wanted))
      return said({ app: linked.app, changed: false }, `This folder belongs to the app ${linked.app} already.`)
    if (linked)
      throw new Error(
        `This folder belongs to the app ${linked.app}. To link it to ${wanted} instead, remove ${appFileName} (or mote.json) first.`,
      )
    const app = wanted === '' ? await chooseApp(call.client) : wanted
    const { pullFile } = await import('../pull-file.ts')
    const { text } = await pullFile(call, app)
    return said({ app, changed: true }, `${text}\nCommands in this folder now act on ${app}. Compare: mote config diff`)
  },
}

async function chooseApp(client: Parameters<Verb['run']>[0]['client']): Promise<string> {
  const apps = await client.listApps({ query: { limit: 100 } })
  const main = apps.filter(app => app.env_of === null)
  if (main.length === 0) throw new Error('This project has no apps. Create one from this folder: mote launch')
  return choose(
    'Which app does this folder belong to?',
    'its name as the argument, as in: mote link web',
    main.map(app => ({ value: app.name, label: app.name })),
  )
}

const destroy: Verb = {
  usage: 'destroy [app]',
  says: `Delete an app with its workers; without a name, the app of ${appFileName}`,
  options: [
    appFlag,
    ['--volumes', `also delete the volumes that ${appFileName} names, with their data`],
    ['-y, --yes', 'delete without asking for the name of the app'],
  ],
  example: 'mote destroy\nmote destroy web --yes',
  async run(call) {
    const name = call.args[0] || (await appOf(call))
    const { requiredFile } = await import('../app-file.ts')
    const { deleteApp, deleteVolume } = await import('../removal.ts')
    const all = await Array.fromAsync(everyItem(query => call.client.listApps({ query })))
    const workers = all.filter(app => app.env_of === name).map(app => app.name)
    if (!all.some(app => app.name === name))
      throw new Error(`There is no app ${name} in this project. List them: mote apps list`)
    const wanted = call.flags.volumes === true ? (await requiredFile({ app: name })).volumes.map(one => one.name) : []
    const volumes = (await Array.fromAsync(everyItem(query => call.client.listVolumes({ query })))).filter(one =>
      wanted.includes(one.name),
    )
    call.terminal.line(
      `Apps: ${[...workers, name].join(', ')}\nVolumes: ${volumes.map(one => one.name).join(', ') || 'none; they are kept'}`,
    )
    await confirmByName('the app', name, call.flags.yes === true)
    for (const app of [...workers, name]) await deleteApp(call, app)
    for (const { id, name: volume } of volumes)
      await call.terminal.step(`Deleting the volume ${volume}`, () => deleteVolume(call, id))
    const deleted = { apps: [...workers, name], volumes: volumes.map(one => one.name) }
    return said(deleted, `Deleted ${[...deleted.apps, ...deleted.volumes].join(', ')}.`)
  },
}
