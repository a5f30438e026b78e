/** `npm run demo -- --git`: creates a repository, pushes, builds in a VM and rolls out, twice. */
import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pc } from '../../programs/colours.ts'
import type { App, Client } from '../../client/index.ts'
import type { Terminal } from '../progress.ts'
import { firstAnswer, followToEnd, hostOf } from './deploy.ts'
import { pushDelivery, startGitHost } from './git-host.ts'
import { workTree } from './work-tree.ts'

export interface GitDemo {
  readonly client: Client
  readonly apiUrl: string
  readonly gatewayPort: number
  readonly terminal: Terminal
  readonly data: string
}

export const pushedApp = 'pushed'
const patienceMs = 300_000

/** Pushes two commits. @returns the app's host name, and its response after each push */
export async function demoGitPush(demo: GitDemo): Promise<{ readonly hostname: string; readonly answers: string[] }> {
  const { client, terminal, data, gatewayPort } = demo
  // Use a separate directory for each run, so that earlier repositories remain unchanged.
  const dir = join(data, 'git', randomBytes(4).toString('hex'))
  await mkdir(dir, { recursive: true })
  let onPush = async () => undefined
  await using host = await terminal.step('Git host on loopback (smart HTTP)', () =>
    startGitHost({ dir, onPush: () => onPush() }),
  )
  await host.create(pushedApp)
  const url = host.urlOf(pushedApp)
  const hostname = hostOf(await ensurePushedApp(client, url))
  const { scm_webhook_secret: secret } = await client.getAppSecret({ app_name: pushedApp })
  if (!secret) throw new Error(`the app ${pushedApp} has no webhook secret: delete the app, then run the demo again`)
  onPush = async () => {
    const { body, headers } = await pushDelivery(dir, pushedApp, 'main', secret)
    await fetch(`${demo.apiUrl}/v1/webhooks/scm/${pushedApp}`, { method: 'POST', body, headers })
    return undefined
  }
  const tree = await workTree(join(dir, 'tree'), url)
  const answers: string[] = []
  for (const [n, page] of ['Hello from a git push', 'And this is the second push'].entries()) {
    terminal.line(pc.bold(`\n  git push (${n + 1} of 2)`))
    const files = { 'index.html': `${page}\n`, 'README.md': 'A page that is built in a microVM.\n' }
    const hash = await terminal.step('git push', () => tree.push(files, { message: page }))
    const job = await terminal.step('Signed webhook', () => jobOf(client, hash))
    await followToEnd(client, terminal, pushedApp, job, 'the commit')
    answers.push(
      await terminal.step('HTTP through the gateway', () =>
        firstAnswer(gatewayPort, hostname, body => body.includes(page)),
      ),
    )
  }
  return { hostname, answers }
}

/** Returns the demo's app. Each start of the demo sets a new repository for it. */
async function ensurePushedApp(client: Client, gitUrl: string): Promise<App> {
  const apps = await client.listApps()
  if (!apps.some(({ name }) => name === pushedApp))
    return client.createApp({ body: { name: pushedApp, git_url: gitUrl, drain_timeout: 1 } })
  return client.updateApp({ app_name: pushedApp, body: { port: 8080, git_url: gitUrl } })
}

async function jobOf(client: Client, commit: string): Promise<string> {
  for (const deadline = Date.now() + patienceMs; Date.now() < deadline; await sleep(150)) {
    const found = await client.listDeployments({ app_name: pushedApp })
    const job = found.find(one => one.git_commit_hash === commit)
    if (job) return job.job_id
  }
  throw new Error('the push led to no deployment; see the log in the data directory')
}
