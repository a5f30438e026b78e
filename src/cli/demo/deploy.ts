import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { pc } from '../../lib/colours.ts'
import { type ApiClient, ApiFailure } from '../api.ts'
import type { Terminal } from '../progress.ts'

export interface AppInfo {
  readonly name: string
  readonly hostname: string
  readonly active_deployment_id: string | null
}

interface Live {
  readonly status: string
  readonly error_message: string
  readonly steps: readonly { readonly name: string; readonly ms: number }[]
}

/** Longest wait for the first answer; a first start also builds the guest kernel and the image's base. */
const patienceMs = 300_000

/** Well below the rate limit of a project (600 a minute) even if it takes the whole patience. */
const pollMs = 150

/** The app, made when it is not there yet. */
export async function ensureApp(client: ApiClient, name: string): Promise<AppInfo> {
  try {
    return await client.call<AppInfo>('GET', `/v1/apps/${name}`)
  } catch (cause) {
    if (!(cause instanceof ApiFailure) || cause.status !== 404) throw cause
    return client.call<AppInfo>('POST', '/v1/apps', {
      name,
      git_url: '',
      health_check_path: '/health',
      drain_timeout: 1,
    })
  }
}

/** Deploys and follows: each step of the VM as it is done, and the lines it writes, until it runs. */
export async function deployAndFollow(
  client: ApiClient,
  terminal: Terminal,
  app: string,
  image: string,
): Promise<string> {
  const { job_id } = await client.call<{ job_id: string }>('POST', `/v1/apps/${app}/deploy`, { image })
  await followDeployment(client, terminal, app, job_id, image)
  return job_id
}

/** Shows each step of a deployment as it is done, and the lines it writes, until it runs. */
export async function followDeployment(
  client: ApiClient,
  terminal: Terminal,
  app: string,
  job_id: string,
  what = 'the commit',
): Promise<void> {
  const end = new AbortController()
  const logs = followLogs(client, terminal, `/v1/apps/${app}/deployments/${job_id}`, end.signal)
  try {
    const path = `/v1/apps/${app}/deployments/${job_id}`
    await terminal.step(`Deploying ${what}`, async () => {
      const shown = new Set<string>()
      let waitingFor = ''
      for (const deadline = Date.now() + patienceMs; Date.now() < deadline; await sleep(pollMs)) {
        const live = await client.call<Live>('GET', path)
        for (const step of live.steps)
          if (!shown.has(step.name)) {
            shown.add(step.name)
            terminal.timed(`  ${describe(step.name)}`, step.ms)
          }
        if (live.status === 'running') return
        if (['failed', 'stopped', 'cancelled'].includes(live.status))
          throw new Error(`the deployment ${live.status}: ${live.error_message}`)
        if (live.error_message && live.error_message !== waitingFor)
          terminal.line(pc.yellow(`    ${live.error_message}`))
        waitingFor = live.error_message
      }
      throw new Error(`the deployment did not come up within ${patienceMs / 1000} s; see the log in the data directory`)
    })
  } finally {
    end.abort()
    await logs
  }
}

const stepNames: Readonly<Record<string, string>> = {
  image: 'Image fetched',
  base: 'Read-only base made',
  disk: 'Writable disk made',
  spawn: 'VMM started',
  boot: 'Guest booted',
  healthy: 'App healthy',
}
const describe = (step: string) => stepNames[step] ?? step

async function followLogs(
  client: ApiClient,
  terminal: Terminal,
  deployment: string,
  signal: AbortSignal,
): Promise<void> {
  // The stream opens at once but only names the VMs that exist; it is read for as long as the deploy takes.
  try {
    for await (const { event, data } of client.events(`${deployment}/logs`, signal))
      if (event === 'log') terminal.line(pc.dim(`    ${String(data.stream)} | ${String(data.line)}`))
  } catch (cause) {
    if (!signal.aborted)
      terminal.line(pc.yellow(`    the log stream ended: ${cause instanceof Error ? cause.message : cause}`))
  }
}

/** Asks the gateway until the app answers 200 and as wanted. @throws Error with the last answer when it never does */
export async function firstAnswer(
  gatewayPort: number,
  hostname: string,
  isWanted: (body: string) => boolean = () => true,
): Promise<string> {
  let last = 'no answer'
  for (const deadline = Date.now() + patienceMs; Date.now() < deadline; await sleep(20)) {
    const answer = await ask(gatewayPort, hostname).catch((cause: Error) => ({ status: 0, body: cause.message }))
    if (answer.status === 200 && isWanted(answer.body)) return answer.body
    last = `${answer.status} ${answer.body}`
  }
  throw new Error(`the app did not answer through the gateway; the last answer was: ${last}`)
}

/** Not fetch: the name need not resolve where `*.localhost` does not. */
const ask = (port: number, host: string) =>
  new Promise<{ status: number; body: string }>((resolve, reject) => {
    request({ host: '127.0.0.1', port, path: '/', headers: { host } }, response => {
      let body = ''
      response
        .setEncoding('utf8')
        .on('data', chunk => {
          body += chunk
        })
        .on('end', () => resolve({ status: response.statusCode ?? 0, body }))
    })
      .on('error', reject)
      .end()
  })
