/**
 * `npm run demo`: starts the whole system, creates an account, deploys an app to a real VM, and prints further
 * commands.
 */
import { mkdir, mkdtemp, rm, rmdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isolationText } from '../../programs/isolation-text.ts'
import { pc } from '../../programs/colours.ts'
import { writeSampleImage } from '../../agent/image/sample.ts'
import { type AllInOne, startAllInOne } from '../../programs/all-in-one.ts'
import { createLog } from '../../programs/log.ts'
import { runProgram } from '../../programs/run.ts'
import { readSettings } from '../../programs/settings.ts'
import { StartFailed } from '../../programs/start-failure.ts'
import type { Client } from '../../client/index.ts'
import { type Terminal, createTerminal } from '../progress.ts'
import { type DemoAccount, demoAccount } from './account.ts'
import { demoGitPush, pushedApp } from './git.ts'
import { deployAndFollow, ensureApp, firstAnswer, hostOf } from './deploy.ts'
import { err, out } from '../terminal.ts'

export interface DemoFlags {
  readonly git?: boolean
  readonly once?: boolean
  readonly port: string
  readonly gatewayPort: string
  readonly data: string
  readonly hypervisor?: string
  readonly network: string
}

const appName = 'hello'
const image = `oci:${appName}`
/** Time limit for stopping everything, including the VMs. */
const stopVmsMs = 60_000

export async function runDemo(flags: DemoFlags): Promise<void> {
  const startedMs = performance.now()
  const terminal = createTerminal()
  const data = flags.once ? await onceDir(resolve(flags.data)) : resolve(flags.data)
  // If the gateway's port is random, the SSH port is random, too, so that the demo occupies no fixed port.
  const ssh = flags.gatewayPort === '0' ? { sshPort: '0' } : {}
  const settings = readSettings({ ...ssh, ...flags, data }, process.env)
  const log = createLog({ level: settings.logLevel, file: join(data, 'log', 'mote.log') })
  // No captcha: the demo registers its own user and cannot solve one.
  const env = { ...process.env, MOTE_CAPTCHA: 'off', ...(flags.git ? { MOTE_GIT_PRIVATE_HOSTS: 'on' } : {}) }
  let all: AllInOne | undefined
  const stop = async () => {
    await all?.stop({ stopVms: true })
    if (!flags.once) return
    await rm(data, { recursive: true, force: true })
    // Also remove the directory given with `--data`. This fails if another run has data in it.
    await rmdir(dirname(data)).catch(() => undefined)
  }
  const bringUp = async () => {
    all = await startAllInOne(settings, env, log, terminal)
    return { all, ...(await (flags.git ? deployPushed : deployHello)(all, terminal, data, startedMs)) }
  }
  try {
    if (flags.once) {
      const up = await bringUp().catch((cause: unknown) => {
        throw new StartFailed(cause)
      })
      await terminal.step('Tearing down', () => tearDown(up.account.client, up.all, flags.git ? pushedApp : appName))
      return
    }
    const start = async (scope: AsyncDisposableStack) => {
      scope.defer(stop)
      const up = await bringUp()
      reportMore(up.account, up.all, up.hostname)
      scope.defer(() => err('\nStopping. The data is kept for the next start ...\n'))
    }
    await runProgram(log, start, { releaseMs: stopVmsMs })
  } finally {
    await stop()
  }
}

/**
 * Creates the data directory for `--once`, below `--data`: the system's temporary directory may be limited to 10 MiB or
 * mounted noexec.
 */
async function onceDir(dataDir: string): Promise<string> {
  await mkdir(dataDir, { recursive: true, mode: 0o711 })
  return mkdtemp(join(dataDir, 'once-'))
}

async function deployHello(all: AllInOne, terminal: Terminal, data: string, startedMs: number) {
  const account = await terminal.step('Account', () => demoAccount(all.apiUrl, data))
  await terminal.step('Guest kernel', all.hostReady)
  await terminal.step('Sample image', () => writeSampleImage(join(data, 'images', appName)))
  const app = await ensureApp(account.client, appName)
  if (!app.active_deployment_id) await deployAndFollow(account.client, terminal, appName, image)
  const answer = await terminal.step('HTTP through the gateway', () => firstAnswer(all.gatewayPort, hostOf(app)))
  show(answer, performance.now() - startedMs)
  out(`${pc.dim(await isolationOf(account.client, all))}\n`)
  return { account, hostname: hostOf(app) }
}

async function isolationOf(client: Client, all: AllInOne): Promise<string> {
  const [latest] = await client.listDeployments({ app_name: appName, query: { limit: 1 } })
  const name =
    latest === undefined ? '' : (await client.getDeployment({ app_name: appName, job_id: latest.id })).hypervisor
  const offer = (await all.hostReady()).find(one => one.name === name)
  return `Isolation: ${isolationText(offer ?? { name })}`
}

async function deployPushed(all: AllInOne, terminal: Terminal, data: string, startedMs: number) {
  const account = await terminal.step('Account', () => demoAccount(all.apiUrl, data))
  await terminal.step('Guest kernel', all.hostReady)
  const { client } = account
  const pushed = await demoGitPush({ client, apiUrl: all.apiUrl, gatewayPort: all.gatewayPort, terminal, data })
  show(pushed.answers.join(''), performance.now() - startedMs)
  return { account, hostname: pushed.hostname }
}

/** Deletes the app and waits until no VMs are left on the host. */
async function tearDown(client: Client, all: AllInOne, name: string): Promise<void> {
  await client.deleteApp({ app_name: name })
  for (const deadline = Date.now() + 60_000; Date.now() < deadline; await sleep(50))
    if ((await all.vmCount()) === 0) return
  throw new Error('the app was not gone after 60 s; see the log')
}

function show(answer: string, ms: number): void {
  const indented = answer
    .trimEnd()
    .split('\n')
    .map(line => `    ${line}`)
  out(
    `\n${pc.bold('The VM answered:')}\n${indented.join('\n')}\n\n${pc.dim(`${(ms / 1000).toFixed(1)} s from the command to the answer`)}\n`,
  )
}

function reportMore({ email, password }: DemoAccount, all: AllInOne, hostname: string): void {
  const app = `http://${hostname}:${all.gatewayPort}`
  out(`
  App        ${pc.cyan(app)}
  Dashboard  ${pc.cyan(all.apiUrl)}
  Login      ${email} / ${password}
  API        ${all.apiUrl}/v1/docs

Try next, in another terminal:
  curl ${app}
  npm run mote -- login --url ${all.apiUrl}
  npm run mote -- status --app ${appName}
  npm run mote -- logs --app ${appName} -f

${pc.dim('Ctrl-C stops it.')}
`)
}
