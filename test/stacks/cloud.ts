/** Starts a cloud with the built program and gVisor, and runs the CLI as a signed-in user. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { api } from '../support/api.ts'
import { freePort } from '../support/free-port.ts'
import { builtProgram } from '../support/program.ts'
import { startReaper } from '../support/reaper.ts'
import { until } from '../support/wait.ts'

export interface Cloud extends AsyncDisposable {
  /** Runs `mote` in a folder, and returns its output. @throws Error with the output if it fails */
  mote(args: readonly string[], folder: string): Promise<string>
  /** Starts a `mote` command that runs until it is killed, such as `mote proxy`. */
  start(args: readonly string[], folder: string): ChildProcess
  /** Sends a request to an app through the gateway. @returns status and body of the response */
  ask(url: string, path: string, method?: string): Promise<string>
}

export interface CloudOptions {
  readonly runsc: string
  /** Directories (OCI image layouts) of images that apps can deploy. */
  readonly images: readonly string[]
}

export async function startCloud({ runsc, images }: CloudOptions): Promise<Cloud> {
  await using undo = new AsyncDisposableStack()
  const reaper = startReaper()
  undo.defer(() => reaper.finish())
  const home = await mkdtemp(join(tmpdir(), 'mote-stacks-'))
  undo.defer(() => rm(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }))
  const data = join(home, 'data')
  await mkdir(join(data, 'images'), { recursive: true })
  for (const layout of images) await cp(layout, join(data, 'images', basename(layout)), { recursive: true })
  const { MOTE_TOKEN: _, MOTE_URL: __, MOTE_PROJECT: ___, ...inherited } = process.env
  const gateway = await freePort()
  const env = { ...inherited, MOTE_CAPTCHA: 'off', MOTE_HYPERVISOR: 'gvisor', MOTE_RUNSC_BIN: runsc }
  const main = await builtProgram()
  const ports = ['--port', '0', '--gateway-port', String(gateway), '--ssh-port', String(await freePort())]
  const child = spawn(process.execPath, [main, 'up', '--data', data, '--stop-vms', ...ports], {
    env,
    cwd: home,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  reaper.killAtEnd(child.pid ?? 0)
  undo.defer(() => ended(child))
  let output = ''
  child.stderr.setEncoding('utf8').on('data', text => (output += text))
  const [, url = ''] = await until(() => /"api":"(http:[^"]+)"/.exec(output), {
    timeoutMs: 120_000,
    what: 'the cloud to be ready',
  }).catch((cause: unknown) => {
    throw new Error(output.slice(-2000), { cause })
  })
  const account = { email: 'one@example.com', password: 'quartz-otter-lantern-42' }
  const anonymous = api(url)
  await anonymous.post('/v1/auth/register', { ...account, captcha_id: '', captcha_answer: '' })
  const { token } = (await anonymous.post('/v1/auth/login', account)).body
  const own = { ...inherited, MOTE_URL: url, MOTE_TOKEN: token, NO_COLOR: '1', DB_PASSWORD: 's3cret', HOME: home }
  const all = undo.move()
  return {
    async mote(args, cwd) {
      const ran = promisify(execFile)(process.execPath, [main, ...args], { cwd, env: own, timeout: 300_000 })
      const { stdout } = await ran.catch((cause: unknown) => {
        const said = [Reflect.get(Object(cause), 'stdout'), Reflect.get(Object(cause), 'stderr')].join('\n')
        throw new Error(`mote ${args.join(' ')}: ${said.slice(-6000)}`, { cause })
      })
      return stdout
    },
    start: (args, cwd) =>
      spawn(process.execPath, [main, ...args], { cwd, env: own, stdio: ['ignore', 'ignore', 'pipe'] }),
    ask: (app, path, method = 'GET') => answer(gateway, new URL(app).hostname, path, method),
    [Symbol.asyncDispose]: () => all[Symbol.asyncDispose](),
  }
}

const answer = (port: number, host: string, path: string, method: string) =>
  new Promise<string>(resolve => {
    request({ port, host: '127.0.0.1', path, method, headers: { host } }, response => {
      let body = ''
      response
        .setEncoding('utf8')
        .on('data', text => (body += text))
        .on('end', () => resolve(`${response.statusCode} ${body.trim()}`))
    })
      .on('error', error => resolve(error.message))
      .end()
  })

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  await exited
}
