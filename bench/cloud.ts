/** Runs `mote up` in its own process, as users do, with a signed-in user. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Client, createClient } from '../src/client/index.ts'
import type { Turns } from './event-loop.ts'

export interface BenchCloud extends AsyncDisposable {
  readonly client: Client
  readonly apiUrl: string
  readonly person: { readonly email: string; readonly password: string }
  readonly dir: string
  readonly gatewayPort: number
  /** PID of the process that runs the whole cloud. */
  readonly pid: number
  /** Returns the figures of that process's event loop since the last call. Needs the option `measured`. */
  turns(): Promise<Turns>
}

/**
 * Starts `mote up` with a signed-in user.
 * @param env environment variables in addition to those that every benchmark sets
 * @param measured whether to measure the event loop, which costs 1 % of a core
 */
export async function startBenchCloud(
  hypervisor: 'qemu' | 'gvisor' | 'fake',
  env: Readonly<Record<string, string>> = {},
  { measured = false } = {},
): Promise<BenchCloud> {
  await using cleanup = new AsyncDisposableStack()
  const dir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
  cleanup.defer(() => rm(dir, { recursive: true, force: true }))
  const rates = Object.fromEntries(
    ['TENANT', 'ANONYMOUS', 'LOGIN', 'CREATES'].map(name => [`MOTE_RATE_${name}`, '100000000']),
  )
  const child = spawn(
    process.execPath,
    [
      ...(measured ? ['--import', join(import.meta.dirname, 'turns-preload.ts')] : []),
      'src/cli/main.ts',
      'up',
      '--data',
      dir,
      '--port',
      '0',
      '--gateway-port',
      '0',
      '--ssh-port',
      '0',
      '--hypervisor',
      hypervisor,
      '--stop-vms',
    ],
    {
      env: { ...process.env, ...rates, MOTE_CAPTCHA: 'off', ...env },
      stdio: ['ignore', 'ignore', 'pipe', ...(measured ? (['ipc'] as const) : [])],
    },
  )
  const ended = once(child, 'exit')
  cleanup.defer(async () => {
    child.kill('SIGTERM')
    await ended
  })
  const [api, gatewayPort] = await portsOf(child)
  let token: string | undefined
  const client = createClient({ baseUrl: api, token: () => token })
  const person = { email: 'bench@example.com', password: 'a long sentence of the bench' }
  await client.register({ body: { ...person, captcha_id: '', captcha_answer: '' } })
  token = (await client.login({ body: person })).token ?? undefined
  const all = cleanup.move()
  return {
    client,
    apiUrl: api,
    person,
    dir,
    gatewayPort,
    pid: child.pid ?? 0,
    async turns() {
      const answer = once(child, 'message')
      child.send('turns')
      return (await answer)[0]
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/**
 * Returns the ports of the API and of the gateway from the child's log. Reads the log until the child exits, because a
 * full pipe would block it.
 */
async function portsOf(child: ChildProcess): Promise<[api: string, gatewayPort: number]> {
  let output = ''
  const found = Promise.withResolvers<[api: string, gatewayPort: number]>()
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-20_000)
    const up = /"api":"(http:\/\/localhost:\d+)".*"gateway":"http:\/\/localhost:(\d+)"/.exec(output)
    if (up) found.resolve([up[1] ?? '', Number(up[2])])
  })
  child.once('exit', () => found.reject(new Error(`mote up ended before it was up:\n${output.slice(-2000)}`)))
  return found.promise
}

/** Returns the milliseconds until the app responds with 200 through the gateway. */
export async function untilAnswer(
  cloud: BenchCloud,
  host: string,
  accept: (body: string) => boolean = () => true,
  path = '/',
): Promise<number> {
  const began = performance.now()
  for (const deadline = began + 120_000; performance.now() < deadline; await pause(5)) {
    const body = await new Promise<string | undefined>(resolve => {
      request({ port: cloud.gatewayPort, host: '127.0.0.1', path, headers: { host } }, response => {
        let text = ''
        response
          .setEncoding('utf8')
          .on('data', chunk => (text += chunk))
          .on('end', () => resolve(response.statusCode === 200 ? text : undefined))
      })
        .on('error', () => resolve(undefined))
        .end()
    })
    if (body !== undefined && accept(body)) return performance.now() - began
  }
  throw new Error(`${host} did not answer within two minutes`)
}
