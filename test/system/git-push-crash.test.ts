/**
 * All processes of `mote up` are killed with SIGKILL while a builder VM runs. After a restart the build completes with
 * one image, and nothing of the first attempt remains.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type GitServer, gitServer } from '../support/agent/build.ts'
import { vmmsIn } from '../support/agent/agent.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { type Api, api } from '../support/api.ts'
import { moteProgram } from '../support/program.ts'
import { startReaper } from '../support/reaper.ts'
import { until } from '../support/wait.ts'

const needed = ['qemu-system-x86_64', 'umoci', 'mke2fs', 'git']
const present = await Promise.all(needed.map(hasProgram))
const missing = needed.filter((_, n) => !present[n])
const reason = missing.length > 0 ? `skipped, not installed: ${missing.join(', ')}` : ''

describe.skipIf(missing.length > 0)(`an interrupted build ${reason}`, { timeout: 300_000 }, () => {
  const reaper = startReaper()
  let dir: string
  let git: GitServer
  let child: ChildProcess | undefined
  let ports = { api: 0, gateway: 0 }
  beforeAll(async () => {
    git = await gitServer()
    dir = await mkdtemp(join(tmpdir(), 'mote-crash-'))
    reaper.removeAtEnd(dir)
  })
  afterAll(async () => {
    await kill()
    for (const pid of await vmmsIn(dir)) process.kill(pid, 'SIGKILL')
    await rm(dir, { recursive: true, force: true })
    await git[Symbol.asyncDispose]()
  })

  const start = async () => {
    const free = ['--port', '0', '--gateway-port', '0', '--ssh-port', '0']
    const started = spawn(process.execPath, [moteProgram, 'up', '--data', dir, ...free, '--hypervisor', 'qemu'], {
      env: { ...process.env, MOTE_CAPTCHA: 'off', MOTE_GIT_PRIVATE_HOSTS: 'true', MOTE_RATE_LOGIN: '1000' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    child = started
    reaper.killAtEnd(started.pid ?? 0)
    let output = ''
    for (const stream of [started.stdout, started.stderr])
      stream?.setEncoding('utf8').on('data', text => (output += text))
    const up = await until(
      () => /"api":"http:\/\/localhost:(\d+)".*"gateway":"http:\/\/localhost:(\d+)"/.exec(output),
      {
        timeoutMs: 60_000,
        what: 'mote to be ready',
      },
    )
    ports = { api: Number(up[1]), gateway: Number(up[2]) }
  }
  const kill = async () => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
    reaper.forget(child.pid ?? 0)
  }
  const account = { email: 'one@example.com', password: 'quartz-otter-lantern-42' }
  const signIn = async (): Promise<Api> => {
    const anonymous = api(`http://127.0.0.1:${ports.api}`)
    return anonymous.as((await anonymous.post('/v1/auth/login', account)).body.token)
  }
  const answer = (host: string) =>
    new Promise<string>(resolve => {
      request({ port: ports.gateway, host: '127.0.0.1', headers: { host } }, response => {
        let body = ''
        response.setEncoding('utf8').on('data', text => (body += text))
        response.on('end', () => resolve(`${response.statusCode} ${body}`))
      })
        .on('error', error => resolve(error.message))
        .end()
    })

  it('is repeated after a restart, serves, and leaves no VMs or files of the first attempt', async () => {
    await start()
    await api(`http://127.0.0.1:${ports.api}`).post('/v1/auth/register', {
      ...account,
      captcha_id: '',
      captcha_answer: '',
    })
    let user = await signIn()
    const hash = await git.push({ 'index.html': 'made after all' })
    const app = (await user.post('/v1/apps', { name: 'site', git_url: git.url, drain_timeout: 0 })).body
    const { job_id: job } = (await user.post('/v1/apps/site/deploy', {})).body
    const builds = async () => (await user.get('/v1/apps/site/builds')).body
    await until(async () => (await builds())[0]?.status === 'building', { what: 'it builds', timeoutMs: 120_000 })
    await until(async () => (await vmmsIn(dir)).length > 0, { what: 'its VM', timeoutMs: 60_000, everyMs: 5 })
    const strays = await vmmsIn(dir)
    await kill()

    await start()
    user = await signIn()
    await until(async () => (await answer(app.hostname)) === '200 made after all', {
      what: 'the page to be served',
      timeoutMs: 180_000,
      everyMs: 100,
    })
    expect(await builds()).toMatchObject([{ status: 'succeeded', job_id: job, git_commit_hash: hash, error: null }])
    const { body: live } = await user.get(`/v1/apps/site/deployments/${job}`)
    expect(live).toMatchObject({ status: 'running', error_message: '' })
    const [running, ...others] = await vmmsIn(dir)
    expect([others, strays.includes(running ?? 0)]).toEqual([[], false])
    const [{ id }] = await builds()
    await until(async () => !existsSync(join(dir, 'agent', 'builds', id, 'work')), {
      what: 'all build files to be removed',
    })
    expect(await readdir(join(dir, 'agent', 'vms'))).toEqual([live.vm_id])
    expect((await readdir(join(dir, 'images'))).filter(name => name.startsWith('app-'))).toEqual([`app-${app.id}`])
    const kept = await until(
      async () => (one => one.body.source === 'kept' && one)(await user.get(`/v1/apps/site/builds/${id}/log`)),
      { what: 'the build log to be stored', timeoutMs: 30_000 },
    )
    expect(kept.body.lines.at(-1).line).toMatch(/^built oci:/)

    expect((await user.delete('/v1/apps/site')).status).toBe(200)
    await until(async () => (await vmmsIn(dir)).length === 0, { what: 'the app to be deleted', timeoutMs: 60_000 })
  })
})
