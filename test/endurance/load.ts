/** Light use of an installation: requests through its gateways, deployments, and streams that open and close. */
import { request } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { type Api, api } from '../support/api.ts'
import { until } from '../support/wait.ts'
import type { Installation } from './installation.ts'
import { pushAndPull } from './registry.ts'

const account = { email: 'endurance@example.com', password: 'quartz-otter-lantern-42' }
const requestEveryMs = 100
const streamMs = 700

export interface Load {
  /** Does each kind of work (see `Work`) once, so that lazily opened resources are open before anything is counted. */
  warmUp(): Promise<void>
  /** Does each kind of work repeatedly until the signal aborts. @returns how often each was done */
  run(signal: AbortSignal): Promise<Work>
}

export interface Work {
  requests: number
  deployments: number
  streams: number
  /** Number of connections through a TCP service (a public port of the app). */
  connections: number
  /** Number of images pushed and pulled again; absent if docker-registry is not installed. */
  images?: number
}

export async function prepareLoad(installation: Installation): Promise<Load> {
  const anonymous = installation.planes.map(plane => api(plane))
  const [first] = anonymous
  if (!first) throw new Error('BUG: no control plane')
  await first.post('/v1/auth/register', { ...account, captcha_id: '', captcha_answer: '' })
  const { token } = (await first.post('/v1/auth/login', account)).body
  const users = anonymous.map(one => one.as(token))
  const app = await first.as(token).post('/v1/apps', { name: 'hello', git_url: '', drain_timeout: 0 })
  if (app.status !== 200) throw new Error(`cannot make an app: ${JSON.stringify(app.body)}`)
  const hostname = String(app.body.hostname)
  const service = await first.as(token).call('PUT', '/v1/apps/hello/services/plain', { port: app.body.port })
  const tcpPort = Number(service.body.public_port)
  const push = await preparePush(installation, first.as(token))
  const none = (): Work => ({ requests: 0, deployments: 0, streams: 0, connections: 0, ...(push ? { images: 0 } : {}) })
  const work = none()
  const deploy = async (signal: AbortSignal) => {
    const user = inTurn(users, work.deployments)
    await deployed(user, `example/app:${work.deployments++}`, signal)
  }
  const visit = async () => {
    await visited(gatewayInTurn(installation, work.requests++), hostname)
  }
  /**
   * Connects through the TCP service, with retries: without drain time, a new version cuts connections to the old one.
   */
  const dial = async () => {
    const host = inTurn(installation.gatewayHosts, work.connections++)
    await until(() => dialed(host, tcpPort), { timeoutMs: 10_000, everyMs: 20, what: 'the TCP service answers' })
  }
  const pushImage = async () => {
    await push?.()
    work.images = (work.images ?? 0) + 1
  }
  const follow = async (path: string) => {
    await followed(inTurn(users, Math.floor(work.streams++ / paths.length)), path)
  }
  return {
    async warmUp() {
      const signal = AbortSignal.timeout(60_000)
      for (const _ of users) await deploy(signal)
      for (const _ of installation.gatewayPorts)
        await until(async () => (await visited(gatewayInTurn(installation, work.requests++), hostname)) === 200, {
          timeoutMs: 30_000,
          what: `the app answers; ${installation.lately()}`,
        })
      await Promise.all(Array.from({ length: 10 }, visit))
      for (const host of installation.gatewayHosts)
        await until(() => dialed(host, tcpPort), { timeoutMs: 30_000, what: `the TCP service answers at ${host}` })
      for (const _ of users) if (push) await pushImage()
      for (const _ of users) for (const path of paths) await follow(path)
    },
    async run(signal) {
      Object.assign(work, none())
      const again = async (everyMs: number, act: () => Promise<unknown>) => {
        for (; !signal.aborted; await pause(everyMs, undefined, { signal }).catch(() => undefined)) await act()
      }
      await Promise.all([
        again(requestEveryMs, visit),
        again(2_000, () => deploy(signal)),
        again(200, dial),
        ...(push ? [again(1_000, pushImage)] : []),
        ...paths.map(path => again(500, () => follow(path))),
      ])
      return { ...work }
    },
  }
}

const paths = ['/v1/apps/hello/logs/stream', '/v1/deployments/events', '/v1/workspace/events', '/v1/health/stream']

const inTurn = <T>(all: readonly T[], n: number): T => {
  const one = all[n % all.length]
  if (one === undefined) throw new Error('BUG: none')
  return one
}

async function deployed(user: Api, image: string, signal: AbortSignal): Promise<void> {
  const { job_id: jobId } = (await user.post('/v1/apps/hello/deploy', { image })).body
  const status = async () => (await user.get(`/v1/apps/hello/deployments/${jobId}`)).body.status
  await until(async () => signal.aborted || (await status()) === 'running', {
    timeoutMs: 60_000,
    everyMs: 50,
    what: `${image} runs`,
  })
}

const gatewayInTurn = ({ gatewayHosts, gatewayPorts }: Installation, n: number) => ({
  host: inTurn(gatewayHosts, n),
  port: inTurn(gatewayPorts, n),
})

function visited(at: { readonly host: string; readonly port: number }, host: string): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>()
  request({ ...at, headers: { host, connection: 'close' }, agent: false }, answer => {
    answer.resume().once('end', () => resolve(answer.statusCode))
  })
    .on('error', reject)
    .end()
  return promise
}

async function followed(user: Api, path: string): Promise<void> {
  const end = AbortSignal.timeout(streamMs)
  try {
    for await (const _ of user.events(path, end)) if (end.aborted) return
  } catch (error) {
    if (!end.aborted) throw error
  }
}

/** Opens a connection through a TCP service; resolves with true once the VM has answered and closed it. */
async function dialed(host: string, port: number): Promise<true> {
  const socket = connect({ host, port })
  socket.setTimeout(10_000, () => socket.destroy(new Error('the TCP service does not answer')))
  socket.end('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  const answer = await text(socket)
  if (!answer.startsWith('HTTP/1.1 200')) throw new Error(`the TCP service answered ${JSON.stringify(answer)}`)
  return true
}

/** Returns a function that pushes an image to the project's registry and pulls it; undefined without a registry. */
async function preparePush({ registryUrl: url }: Installation, user: Api): Promise<(() => Promise<void>) | undefined> {
  if (url === undefined) return undefined
  const project = (await user.get('/v1/projects')).body[0].tenant_id
  const { token } = (await user.post('/v1/auth/tokens', { name: 'push', scopes: ['write'] })).body
  return () => pushAndPull({ url, repository: `${project}/pushed`, token, email: account.email })
}
