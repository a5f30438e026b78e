/** Commands for apps: list, create, status, logs, scale. */
import type { Command } from 'commander'
import {
  type App,
  authorOf,
  type Deployment,
  type HistoryTotals,
  imageName,
  shortFailure,
  versionOf,
} from '../../client/index.ts'
import { confirmByName } from '../ask.ts'
import { appFlag, appOf } from '../folder.ts'
import { appLogFlags, showLogs } from '../app-logs.ts'
import { labels, placingText, set } from './app-settings.ts'
import { age, bytes, facts, listing, status } from '../output.ts'
import { watched, watchFlag } from '../watch.ts'
import { type Answer, type Call, noun, said, text, type Verb, verb, wholeNumber } from '../verb.ts'

export const appCommands = (): Command[] => [
  noun('apps', 'Apps of the project', [list, create, show, set, labels, remove]),
  ...[statusOf, info, ps, logs, scale, open].map(verb),
]

/** Describes the state of an app in one or two words. */
const stateOf = ({ active_deployment_id, scale_state, failure }: App) =>
  active_deployment_id ? scale_state : failure === null ? 'not deployed' : 'failed'

const list: Verb = {
  usage: 'list',
  says: 'List apps with their state',
  aliases: ['ls'],
  example: 'mote apps list',
  async run({ client }) {
    const apps = await client.listApps()
    const rows = apps.map(app => [
      app.name,
      status(stateOf(app)),
      app.desired_replicas,
      (app.failure && shortFailure(app.failure)) || app.url || '',
      age(app.created_at),
    ])
    return said(
      apps,
      listing(['NAME', 'STATE', 'REPLICAS', 'ADDRESS OR FAILURE', 'AGE'], rows, 'No apps yet: mote launch'),
    )
  },
}

const create: Verb = {
  usage: 'create <name>',
  says: 'Create an app without deploying it',
  options: [
    ['--git-url <url>', 'URL of the git repository that the app is built from'],
    ['--port <port>', 'port that the app listens on'],
    ['--health <path>', 'path that must return 2xx or 3xx before a deployment gets traffic'],
  ],
  example: 'mote apps create web --port 8080 --health /health',
  async run({ client, args: [name = ''], flags }) {
    const app = await client.createApp({
      body: {
        name,
        git_url: text(flags, 'gitUrl') ?? '',
        health_check_path: text(flags, 'health'),
        port: wholeNumber(flags, 'port'),
      },
    })
    return said(app, `Created the app ${app.name}. Deploy it: mote deploy --app ${app.name} --image <image>`)
  },
}

const show: Verb = {
  usage: 'show [name]',
  says: 'Show an app with its settings; by default that of this folder',
  async run({ client, args: [name], flags }) {
    const app = await client.getApp({ app_name: name || (await appOf({ flags })) })
    const autoscaling = `${app.min_replicas} to ${app.max_replicas}, cpu ${app.cpu_threshold} %, memory ${app.mem_threshold} %`
    const text = facts({
      name: app.name,
      address: app.url,
      state: status(stateOf(app)),
      failure: app.failure === null ? undefined : shortFailure(app.failure),
      port: app.port,
      health: app.health_check_path,
      source: app.git_url,
      replicas: app.desired_replicas,
      placing: placingText(app),
      autoscaling: app.autoscaling_enabled ? autoscaling : 'off',
      created: app.created_at,
    })
    return said(app, text)
  },
}

const remove: Verb = {
  usage: 'delete <name>',
  says: 'Delete an app with everything except its volumes',
  options: [['-y, --yes', 'skip the confirmation']],
  async run({ client, args: [name = ''], flags }) {
    await confirmByName('the app', name, flags.yes === true)
    return said(await client.deleteApp({ app_name: name }), `App ${name} is being deleted.`)
  },
}

/** Returns the app's active deployment; undefined if there is none. */
export async function activeDeployment({ client }: Call, app: string): Promise<Deployment | undefined> {
  const { active_deployment_id: id } = await client.getApp({ app_name: app })
  if (!id) return undefined
  const all = await client.listDeployments({ app_name: app })
  return all.find(deployment => deployment.id === id)
}

/**
 * Returns the id given with `--deployment`, else that of the active deployment.
 * @throws Error if there is no active deployment
 */
export async function deploymentOf(call: Call, app: string): Promise<string> {
  const named = text(call.flags, 'deployment')
  if (named !== undefined) return named
  const active = await activeDeployment(call, app)
  if (active) return active.job_id
  throw new Error(`${app} has no active deployment. Deploy it: mote deploy --app ${app}`)
}

export const deploymentFlag = ['-d, --deployment <id>', 'the deployment; by default the active one'] as const

const statusOf: Verb = {
  usage: 'status',
  says: 'Show the active deployment with live metrics',
  options: [appFlag],
  example: 'mote status --app web',
  async run(call) {
    const app = await appOf(call)
    const { url } = await call.client.getApp({ app_name: app })
    const active = await activeDeployment(call, app)
    if (!active) return { json: { app, deployment: null }, text: `${app} is not deployed.`, code: 1 }
    const live = await call.client.getDeployment({ app_name: app, job_id: active.job_id })
    const text = facts({
      app,
      url,
      status: status(live.status),
      scale: live.scale_state,
      image: imageName(live.image),
      cpu: `${live.cpu_usage.toFixed(1)} % of ${live.vcpus} vCPU`,
      host: live.host_id,
      hypervisor: live.hypervisor,
      memory: `${bytes(live.ram_used_bytes)} of ${live.memory_mib} MiB`,
      network: `${bytes(live.rx_bytes)} in, ${bytes(live.tx_bytes)} out`,
      address: live.ipv6_address,
      deployment: live.job_id,
      message: live.error_message,
    })
    return said(live, text)
  },
}

const info: Verb = {
  usage: 'info',
  says: 'Show the active version of the app, and its traffic of the last hour and day',
  options: [appFlag, watchFlag],
  example: 'mote info --app web\nmote info --watch',
  async run(call) {
    const app_name = await appOf(call)
    return watched(call, () => readInfo(call, app_name))
  },
}

async function readInfo(call: Call, app_name: string): Promise<Answer> {
  const { client } = call
  const [app, deployment, hour, day] = await Promise.all([
    client.getApp({ app_name }),
    activeDeployment(call, app_name),
    client.getAppHistory({ app_name, query: { range: '1h' } }),
    client.getAppHistory({ app_name, query: { range: '24h' } }),
  ])
  const json = { app, deployment: deployment ?? null, last_hour: hour.totals, last_day: day.totals }
  const text = facts({
    app: app.name,
    hostname: app.hostname,
    state: status(deployment?.status ?? (app.failure === null ? 'not deployed' : 'failed')),
    version: deployment && versionOf(deployment),
    deployed: deployment && `${age(deployment.created_at)} ago by ${authorOf(deployment)}`,
    deployment: deployment?.job_id,
    replicas: app.desired_replicas,
    'last hour': trafficText(hour.totals),
    'last day': trafficText(day.totals),
    failure: app.failure === null ? undefined : shortFailure(app.failure),
  })
  return said(json, text)
}

function trafficText({ requests, status_4xx, status_5xx, latency_p50_ms, latency_p95_ms }: HistoryTotals): string {
  const latency = latency_p50_ms === null ? '' : `, p50 ${latency_p50_ms} ms, p95 ${latency_p95_ms} ms`
  return `${requests} requests, ${status_4xx} with 4xx, ${status_5xx} with 5xx${latency}`
}

const ps: Verb = {
  usage: 'ps',
  says: 'List running VMs of the project with their CPU, memory and network usage',
  options: [watchFlag],
  example: 'mote ps\nmote ps --watch',
  run: call => watched(call, () => readVms(call)),
}

async function readVms({ client }: Call): Promise<Answer> {
  const active = await client.listActiveDeployments()
  const rows = active.map(live => [
    ...[live.app_name, status(live.status), `${live.cpu_usage.toFixed(1)} %`],
    `${bytes(live.ram_used_bytes)} / ${live.memory_mib} MiB`,
    ...[bytes(live.rx_bytes), bytes(live.tx_bytes), imageName(live.image)],
  ])
  return said(active, listing(['APP', 'STATUS', 'CPU', 'MEMORY', 'IN', 'OUT', 'IMAGE'], rows, 'Nothing runs.'))
}

const logs: Verb = {
  usage: 'logs [app]',
  says: 'Show the logs of the app from all its deployments',
  options: [appFlag, ...appLogFlags],
  example: 'mote logs web -f\nmote logs --since 1h --grep timeout',
  async run(call) {
    return showLogs(call, call.args[0] || (await appOf(call)))
  },
}

const scale: Verb = {
  usage: 'scale [replicas]',
  says: 'Set the number of VMs of the app; without arguments, show the settings',
  options: [
    appFlag,
    ['--min <replicas>', 'minimum number of replicas; 0 lets the app sleep when idle'],
    ['--max <replicas>', 'maximum number of replicas'],
    ['--auto', 'scale by CPU and memory between min and max'],
    ['--no-auto', 'keep a fixed number of replicas'],
    ['--cpu <percent>', 'CPU usage above which replicas are added'],
    ['--memory <percent>', 'memory usage above which replicas are added'],
  ],
  example: 'mote scale 3 --app web\nmote scale --auto --min 0 --max 5',
  async run(call) {
    const { client, flags, args } = call
    const app_name = await appOf(call)
    const replicas = args[0] ? wholeNumber({ replicas: args[0] }, 'replicas') : undefined
    const body = {
      desired_replicas: replicas,
      min_replicas: wholeNumber(flags, 'min'),
      max_replicas: wholeNumber(flags, 'max'),
      cpu_threshold: wholeNumber(flags, 'cpu'),
      mem_threshold: wholeNumber(flags, 'memory'),
      autoscaling_enabled: typeof flags.auto === 'boolean' ? flags.auto : undefined,
    }
    const asked = Object.values(body).some(value => value !== undefined)
    const app = asked ? await client.scaleApp({ app_name, body }) : await client.getApp({ app_name })
    const range = `${app.min_replicas} to ${app.max_replicas}`
    const mode = app.autoscaling_enabled ? `autoscaling ${range}` : 'autoscaling off'
    const note = 'message' in app && app.message ? `\n${app.message}` : ''
    return said(app, `${app.name}: ${app.desired_replicas} replicas, ${mode}${note}`)
  },
}

const open: Verb = {
  usage: 'open',
  says: "Open the app's address in the browser",
  options: [appFlag],
  async run(call) {
    const app = await call.client.getApp({ app_name: await appOf(call) })
    const { url: address } = app
    if (!address) throw new Error(`${app.name} is a worker, which has no address.`)
    const { openInBrowser } = await import('../browser.ts')
    const opened = await openInBrowser(address)
    return said({ url: address, opened }, address)
  },
}
