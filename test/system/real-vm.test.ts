/**
 * `mote up` as a single user runs it, with a real VM and real packets. It is killed with SIGKILL at critical moments.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { writeSampleImage } from '../../src/agent/image/sample.ts'
import { vmmsIn } from '../support/agent/agent.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { type Api, api } from '../support/api.ts'
import { moteProgram } from '../support/program.ts'
import { startReaper } from '../support/reaper.ts'
import { until } from '../support/wait.ts'

const needed = ['qemu-system-x86_64', 'skopeo', 'umoci', 'mke2fs']
const present = await Promise.all(needed.map(hasProgram))
const missing = needed.filter((_, n) => !present[n])
const reason = missing.length > 0 ? `skipped, not installed: ${missing.join(', ')}` : ''

describe.skipIf(missing.length > 0)(`a real microVM under mote up ${reason}`, { timeout: 240_000 }, () => {
  const reaper = startReaper()
  let dir: string
  let ports: { api: number; gateway: number }
  let child: ChildProcess | undefined
  let user: Api
  const output: string[] = []

  const start = async () => {
    const started = spawn(
      process.execPath,
      [moteProgram, 'up', '--data', dir, '--port', '0', '--gateway-port', '0', '--ssh-port', '0'],
      {
        env: {
          ...process.env,
          MOTE_CAPTCHA: 'off',
          MOTE_LOG_LEVEL: 'info',
          MOTE_RATE_LOGIN: '1000',
          // By default, `mote up` would use gVisor on machines that have it.
          MOTE_HYPERVISOR: 'qemu',
        },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    )
    reaper.killAtEnd(started.pid ?? 0)
    child = started
    output.length = 0
    for (const stream of [started.stdout, started.stderr])
      stream?.setEncoding('utf8').on('data', text => output.push(text))
    const up = await until(
      () => /"api":"http:\/\/localhost:(\d+)".*"gateway":"http:\/\/localhost:(\d+)"/.exec(output.join('')),
      {
        timeoutMs: 60_000,
        what: `mote to be ready; ${output.slice(-3).join('')}`,
      },
    )
    ports = { api: Number(up[1]), gateway: Number(up[2]) }
  }
  const kill = async (signal: NodeJS.Signals) => {
    if (!child) throw new Error('BUG: mote does not run')
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
    reaper.forget(child.pid ?? 0)
    return child.exitCode
  }
  const signIn = async () => {
    const account = { email: 'one@example.com', password: 'quartz-otter-lantern-42' }
    const anonymous = api(`http://127.0.0.1:${ports.api}`)
    const login = () => anonymous.post('/v1/auth/login', account)
    if ((await login()).status !== 200)
      await anonymous.post('/v1/auth/register', { ...account, captcha_id: '', captcha_answer: '' })
    user = anonymous.as((await login()).body.token)
  }
  const answer = (host: string) =>
    new Promise<string>(resolve => {
      request({ port: ports.gateway, host: '127.0.0.1', headers: { host } }, res => {
        let body = ''
        res
          .setEncoding('utf8')
          .on('data', chunk => (body += chunk))
          .on('end', () => resolve(`${res.statusCode} ${body}`))
      })
        .on('error', error => resolve(error.message))
        .end()
    })
  const answers = (host: string) =>
    until(async () => (await answer(host)).startsWith('200 Hello from hello, a microVM with Linux'), {
      timeoutMs: 90_000,
      what: `the VM answers; ${output.slice(-5).join('')}`,
    })
  /** Returns the PIDs of this installation's VMMs only, because other tests run VMs, too. */
  const vmPids = () => vmmsIn(dir)

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'mote-real-'))
    reaper.removeAtEnd(dir)
    await writeSampleImage(join(dir, 'images', 'hello'))
  })
  afterAll(async () => {
    if (child?.exitCode === null) await kill('SIGKILL')
    await rm(dir, { recursive: true, force: true })
  })

  it('is deployed although mote up is killed meanwhile, and keeps running when mote up is killed again', async () => {
    await start()
    await signIn()
    const app = (
      await user.post('/v1/apps', { name: 'hello', git_url: '', health_check_path: '/health', drain_timeout: 0 })
    ).body
    const { job_id } = (await user.post('/v1/apps/hello/deploy', { image: 'oci:hello' })).body
    await until(async () => (await user.get(`/v1/apps/hello/deployments/${job_id}`)).body.status === 'starting', {
      timeoutMs: 60_000,
      what: 'the VM to be starting',
    })
    await kill('SIGKILL')

    await start()
    await signIn()
    await answers(app.hostname)
    const before = await vmPids()
    expect(before).toHaveLength(1)

    await kill('SIGKILL')
    await start()
    await signIn()
    await answers(app.hostname)
    expect(await vmPids()).toEqual(before)
    const live = (await user.get(`/v1/apps/hello/deployments/${job_id}`)).body
    expect(live).toMatchObject({ status: 'running', hypervisor: 'qemu', error_message: '' })
    await until(async () => (await user.get('/v1/deployments/active')).body[0]?.ram_used_bytes > 0, {
      what: 'live metrics of the VM',
    })
  })

  it('has a log stream, and leaves nothing on the host after its app is deleted', async () => {
    const end = new AbortController()
    const lines: string[] = []
    const reading = (async () => {
      for await (const { event, data } of user.events('/v1/apps/hello/logs/stream', end.signal))
        if (event === 'log') lines.push(data.line)
    })().catch(() => {})
    await until(() => lines.some(line => line.includes('listening on port 8080')), {
      what: 'the log line of the guest',
    })
    end.abort()
    await reading
    await user.delete('/v1/apps/hello')
    await until(async () => (await vmPids()).length === 0, { timeoutMs: 60_000, what: 'the VM to be removed' })
    await until(async () => (await readdir(join(dir, 'agent', 'vms'))).length === 0, {
      timeoutMs: 30_000,
      what: 'its files to be removed',
    })
    expect(await kill('SIGTERM')).toBe(0)
  })
})
