/**
 * Not repeated on the distribution's PostgreSQL: this file tests processes, not the database.
 * The programs as an operator runs them on several machines: separate processes that share PostgreSQL and a real
 * nats-server, on which each has only the permissions that it needs. The tests kill them at arbitrary moments.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { natsAuthorization } from '../../src/bus/permissions.ts'
import { newId } from '../../src/lib/ids.ts'
import { type Api, api } from '../support/api.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { recordOutput } from '../support/log.ts'
import { type NatsServer, natsMissing, startNatsServer } from '../support/nats.ts'
import { moteProgram } from '../support/program.ts'
import { startReaper } from '../support/reaper.ts'
import { until } from '../support/wait.ts'
import { testCache } from '../support/agent/test-cache.ts'

const password = 'secret'
const hosts = [newId(), newId()] as const
const gatewayId = 'edge'

const freePort = async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  if (address === null || typeof address === 'string') throw new Error('BUG: no port')
  return address.port
}

describe.skipIf(natsMissing)(`programs of several machines ${natsMissing ?? ''}`, { timeout: 60_000 }, () => {
  const reaper = startReaper()
  let nats: NatsServer
  let database: TestDatabase
  let dir: string
  let ports: { api: number; gateway: number }
  let user: Api
  const running = new Map<string, ChildProcess>()
  const output: string[] = []

  const start = (name: string, args: readonly string[], env: Record<string, string>) => {
    const child = spawn(process.execPath, [moteProgram, ...args], {
      env: {
        PATH: process.env['PATH'],
        NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
        HOME: dir,
        MOTE_SSH_PORT: '',
        MOTE_LOG_LEVEL: process.env['MOTE_TEST_LOG'] ?? 'trace',
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    reaper.killAtEnd(child.pid ?? 0)
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', text => {
        recordOutput(text)
        output.push(`${name}: ${text}`)
      })
    running.set(name, child)
  }
  const kill = async (name: string, signal: NodeJS.Signals) => {
    const child = running.get(name)
    if (!child) throw new Error(`BUG: ${name} does not run`)
    const ended = child.exitCode === null ? once(child, 'exit') : undefined
    child.kill(signal)
    await ended
    running.delete(name)
    reaper.forget(child.pid ?? 0)
    return child.exitCode
  }
  const url = (userName: string) => nats.url.replace('nats://', `nats://${userName}:${password}@`)
  const startControl = () =>
    start('control', ['control', '--port', String(ports.api)], {
      DATABASE_URL: database.url,
      NATS_URL: url('control'),
      MOTE_SECRET_KEY: 'programs-'.repeat(5),
      MOTE_CAPTCHA: 'off',
    })
  const startAgent = (n: 0 | 1) =>
    start(
      `agent${n}`,
      [
        'agent',
        '--hypervisor',
        'fake',
        '--host-id',
        hosts[n],
        '--host-name',
        `host${n}`,
        '--data',
        join(dir, `host${n}`),
      ],
      {
        NATS_URL: url(`host-${hosts[n]}`),
      },
    )
  const startGateway = () =>
    start('gateway', ['gateway', '--gateway-port', String(ports.gateway)], { NATS_URL: url(`gateway-${gatewayId}`) })
  const ready = () =>
    until(async () => (await api(`http://127.0.0.1:${ports.api}`).get('/v1/health/ready')).status === 200, {
      what: `the control plane to be ready; ${output.slice(-5).join('')}`,
    })
  const answers = (host: string) =>
    until(
      () =>
        new Promise<boolean>(resolve => {
          request({ port: ports.gateway, host: '127.0.0.1', headers: { host } }, res =>
            resolve(res.resume().statusCode === 200),
          )
            .on('error', () => resolve(false))
            .end()
        }),
      { what: `${host} answers through the gateway; ${output.slice(-5).join('')}` },
    )
  const reaches = (app: string, job: string, wanted: string) =>
    until(async () => (await user.get(`/v1/apps/${app}/deployments/${job}`)).body.status === wanted, {
      timeoutMs: 30_000,
      what: `${app} to be ${wanted}; ${output.slice(-5).join('')}`,
    })

  beforeAll(async () => {
    const users = [
      { role: { kind: 'control' }, password },
      { role: { kind: 'gateway', id: gatewayId }, password },
      ...hosts.map(id => ({ role: { kind: 'host', id }, password }) as const),
    ] as const
    nats = await startNatsServer({ config: natsAuthorization(users) })
    database = await testDatabase()
    dir = await mkdtemp(join(tmpdir(), 'mote-programs-'))
    testCache(join(dir, '.cache', 'mote'))
    ports = { api: await freePort(), gateway: await freePort() }
    startControl()
    await ready()
    startAgent(0)
    startAgent(1)
    startGateway()
    const account = { email: 'operator@example.com', password: 'quartz-otter-lantern-42' }
    const anonymous = api(`http://127.0.0.1:${ports.api}`)
    await anonymous.post('/v1/auth/register', { ...account, captcha_id: '', captcha_answer: '' })
    await until(
      async () => (await database.db.rows({ name: 'test.joined', text: 'SELECT id FROM host' })).length === 2,
      {
        what: `both hosts to join; ${output.slice(-5).join('')}`,
      },
    )
    user = anonymous.as((await anonymous.post('/v1/auth/login', account)).body.token)
  })
  afterAll(async () => {
    for (const name of [...running.keys()]) await kill(name, 'SIGKILL')
    await nats.stop()
    await database.drop()
    await rm(dir, { recursive: true, force: true })
  })

  it('deploy an app with two replicas on two hosts', async () => {
    const app = await user.post('/v1/apps', {
      name: 'hello',
      git_url: '',
      desired_replicas: 2,
      max_replicas: 2,
      drain_timeout: 0,
    })
    expect(app.status).toBe(200)
    const { job_id } = (await user.post('/v1/apps/hello/deploy', { image: 'example/app:1' })).body
    await reaches('hello', job_id, 'running')
    await answers(app.body.hostname)
    const placed = await database.db.rows<{ host: string }>({
      name: 'test.hosts',
      text: 'SELECT DISTINCT host_id AS host FROM vm',
    })
    expect(placed.map(row => row.host).sort()).toEqual([...hosts].sort())
  })

  it('complete a deployment despite kill -9 of the control plane', async () => {
    output.length = 0
    const { hostname } = (await user.post('/v1/apps', { name: 'second', git_url: '' })).body
    const { job_id } = (await user.post('/v1/apps/second/deploy', { image: 'example/app:1' })).body
    await kill('control', 'SIGKILL')
    startControl()
    await ready()
    await reaches('second', job_id, 'running')
    await answers(hostname)
  })

  it('keep VMs running despite kill -9 of their agent, which adopts them after a restart', async () => {
    const { hostname } = (await user.get('/v1/apps/hello')).body
    await kill('agent0', 'SIGKILL')
    startAgent(0)
    const { job_id } = (await user.post('/v1/apps/hello/deploy', { image: 'example/app:2' })).body
    await reaches('hello', job_id, 'running')
    await answers(hostname)
  })

  it('keep serving without a control plane, and stop cleanly on SIGTERM', async () => {
    const { hostname } = (await user.get('/v1/apps/hello')).body
    expect(await kill('control', 'SIGTERM')).toBe(0)
    await answers(hostname)
    for (const name of ['gateway', 'agent0', 'agent1']) expect(await kill(name, 'SIGTERM')).toBe(0)
  })
})
