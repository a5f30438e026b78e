/** A test system with one running app, whose guest is the real init, running as a process of this machine. */
import { createFakeHost } from '../../src/agent/hypervisor/fake/host.ts'
import { compiledInit } from './agent/guest-init.ts'
import { type TestSystem, type TestUser, testSystem } from './system.ts'
import { until } from './wait.ts'

export interface SystemWithGuest extends AsyncDisposable {
  readonly system: TestSystem
  readonly ann: TestUser
  /** API path of the deployment of Ann's app `web`. */
  readonly deployment: string
}

export async function systemWithGuest(): Promise<SystemWithGuest> {
  await using undo = new AsyncDisposableStack()
  const init = undo.use(await compiledInit())
  const guest = undo.use(await init.start())
  const { sessions } = await guest.connect()
  const fake = createFakeHost({ imageMs: 0, bootMs: 0, healthyMs: 0, stopMs: 0, logEveryMs: 0 })
  fake.sessions = () => sessions
  const system = undo.use(await testSystem({ agents: 0 }))
  await system.addAgent({}, fake)
  const ann = await system.user()
  const image = 'docker.io/library/nginx:1.27'
  await until(async () => (await ann.post('/v1/deploy', { app_name: 'web', image })).status === 200, {
    what: 'a deployment',
  })
  const running = async () =>
    (await ann.get('/v1/apps/web/deployments')).body.find((d: { status: string }) => d.status === 'running')
  const { job_id } = await until(running, { what: 'the deployment to run' })
  const owned = undo.move()
  return {
    system,
    ann,
    deployment: `/v1/apps/web/deployments/${job_id}`,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
