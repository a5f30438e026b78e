/** Light use of an installation: requests through its gateways, deployments, and streams that open and close. */
import { request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { type Api, api } from '../support/api.ts'
import { until } from '../support/wait.ts'
import type { Installation } from './installation.ts'

const account = { email: 'endurance@example.com', password: 'quartz-otter-lantern-42' }
const requestEveryMs = 100
const streamMs = 700

export interface Load {
  /** Does everything once, so that lazily opened resources are open. */
  warmUp(): Promise<void>
  /** Runs until the signal aborts. @returns how much was done */
  run(signal: AbortSignal): Promise<Work>
}

interface Work {
  requests: number
  deployments: number
  streams: number
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
  const work: Work = { requests: 0, deployments: 0, streams: 0 }
  const deploy = async (signal: AbortSignal) => {
    const user = inTurn(users, work.deployments)
    await deployed(user, `example/app:${work.deployments++}`, signal)
  }
  const visit = async () => {
    await visited(inTurn(installation.gatewayPorts, work.requests++), hostname)
  }
  const follow = async (path: string) => {
    await followed(inTurn(users, Math.floor(work.streams++ / paths.length)), path)
  }
  return {
    async warmUp() {
      const signal = AbortSignal.timeout(60_000)
      for (const _ of users) await deploy(signal)
      for (const _ of installation.gatewayPorts)
        await until(async () => (await visited(inTurn(installation.gatewayPorts, work.requests++), hostname)) === 200, {
          timeoutMs: 30_000,
          what: `the app answers; ${installation.lately()}`,
        })
      await Promise.all(Array.from({ length: 10 }, visit))
      for (const _ of users) for (const path of paths) await follow(path)
    },
    async run(signal) {
      Object.assign(work, { requests: 0, deployments: 0, streams: 0 })
      const again = async (everyMs: number, act: () => Promise<unknown>) => {
        for (; !signal.aborted; await pause(everyMs, undefined, { signal }).catch(() => undefined)) await act()
      }
      await Promise.all([
        again(requestEveryMs, visit),
        again(2_000, () => deploy(signal)),
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

function visited(port: number, host: string): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>()
  request({ port, host: '127.0.0.1', headers: { host, connection: 'close' }, agent: false }, answer => {
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
