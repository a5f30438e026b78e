import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiFailure, type App, type Client } from '../../client/index.ts'
import { followDeployment } from '../follow.ts'
import type { Terminal } from '../progress.ts'

/** Time limit for the first response. The first start also builds the guest kernel and the base image. */
const patienceMs = 300_000

/** Returns the app, creating it if necessary. */
export async function ensureApp(client: Client, name: string): Promise<App> {
  try {
    return await client.getApp({ app_name: name })
  } catch (cause) {
    if (!(cause instanceof ApiFailure) || cause.status !== 404) throw cause
    return client.createApp({ body: { name, git_url: '', health_check_path: '/health', drain_timeout: 1 } })
  }
}

/** Returns the host name of an app. @throws Error if it has none, which does not happen in the demo */
export function hostOf({ name, hostname }: App): string {
  if (!hostname) throw new Error(`the app ${name} has no host name`)
  return hostname
}

export async function deployAndFollow(client: Client, terminal: Terminal, app: string, image: string): Promise<void> {
  const { job_id } = await client.deployApp({ app_name: app, body: { image } })
  await followToEnd(client, terminal, app, job_id, image)
}

/**
 * Waits until the deployment serves requests.
 * @throws Error if the deployment fails or exceeds the demo's time limit
 */
export async function followToEnd(
  client: Client,
  terminal: Terminal,
  app: string,
  jobId: string,
  what: string,
): Promise<void> {
  const late = new AbortController()
  const why = `the deployment did not come up within ${patienceMs / 1000} s; see the log in the data directory`
  const timer = setTimeout(() => late.abort(new Error(why)), patienceMs)
  try {
    await followDeployment({ client, terminal, signal: late.signal }, app, jobId, `Deploying ${what}`)
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Polls the gateway until the app returns 200 with the wanted body.
 * @throws Error with the last response after the time limit
 */
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

/** Requests the app's page from the gateway. Does not use `fetch`, because not every system resolves `*.localhost`. */
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
