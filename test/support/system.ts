/** The whole system in one process, on a database of its own: control plane, gateway and any number of agents. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { type AgentConfig, agentConfig } from '../../src/agent/base/config.ts'
import { type Agent, startAgent } from '../../src/agent/main.ts'
import type { FakeHost } from '../../src/agent/hypervisor/fake/host.ts'
import type { Bus } from '../../src/bus/bus.ts'
import { createMemoryBus } from '../../src/bus/memory.ts'
import { type ControlConfig, parseControlConfig } from '../../src/control/base/config.ts'
import { type Control, startControl } from '../../src/control/main.ts'
import { type GatewayConfig, gatewayDefaults } from '../../src/gateway/config.ts'
import { type Gateway, startGateway } from '../../src/gateway/main.ts'
import { disown, own } from './agent/remains.ts'
import { type Api, api } from './api.ts'
import { type PostgresChoice, type TestDatabase, testDatabase } from './database.ts'
import { testLog } from './log.ts'
import { until } from './wait.ts'
import { testCache } from './agent/test-cache.ts'

export interface TestSystem extends AsyncDisposable {
  readonly control: Control
  readonly gateway: Gateway
  readonly database: TestDatabase
  readonly bus: Bus
  /** API client without a credential. */
  readonly api: Api
  readonly dir: string
  addAgent(config?: Partial<AgentConfig>, fake?: FakeHost): Promise<Agent>
  /** Stops the control plane as if it had crashed, and starts another one on the same database. */
  restartControl(): Promise<void>
  /** Registers a user and signs in. The first user is an administrator. */
  user(email?: string): Promise<TestUser>
}

export interface TestUser extends Api {
  readonly email: string
  readonly password: string
  readonly refreshToken: string
  /** Slug of the user's default project. */
  readonly project: string
}

export interface SystemOptions {
  readonly postgres?: PostgresChoice
  readonly config?: Partial<ControlConfig>
  readonly gateway?: Partial<GatewayConfig>
  /** Number of agents with the fake hypervisor at the start; default: 1. */
  readonly agents?: number
  readonly logLevel?: string
  /** Logger to use instead of the log of the test run. */
  readonly log?: Logger
}

let users = 0

export async function testSystem(options: SystemOptions = {}): Promise<TestSystem> {
  const log = options.log ?? testLog(options.logLevel)
  const database = await testDatabase(options.postgres)
  const dir = await mkdtemp(join(tmpdir(), 'mote-test-'))
  own(dir)
  const bus = createMemoryBus()
  const config: ControlConfig = {
    ...parseControlConfig({ MOTE_SECRET_KEY: 'test-'.repeat(8), MOTE_CAPTCHA: 'off' }),
    rateLimits: {
      tenantPerMinute: 1e6,
      anonymousPerMinute: 1e6,
      loginPerMinute: 1e6,
      createsPerSecond: 1e6,
      refusalDelayMs: 0,
    },
    sourceDir: join(dir, 'sources'),
    ...options.config,
  }
  const start = () =>
    startControl({ config, db: database.db, bus, log, host: '127.0.0.1', port: 0, checkAnswers: true })
  let control = await start()
  const gateway = await startGateway(
    { ...gatewayDefaults, host: '127.0.0.1', port: 0, ...options.gateway },
    { bus, log },
  )
  const agents: Agent[] = []
  const addAgent = async (change: Partial<AgentConfig> = {}, fake?: FakeHost) => {
    const name = `host-${agents.length + 1}`
    const agent = await startAgent(
      agentConfig({
        dataDir: join(dir, name),
        cacheDir: testCache(join(dir, 'cache')),
        hostName: name,
        hypervisor: 'fake',
        ...change,
      }),
      { bus, log, ...(fake ? { fake } : {}) },
    )
    agents.push(agent)
    return agent
  }
  for (let n = 0; n < (options.agents ?? 1); n++) await addAgent()
  const base = () => `http://127.0.0.1:${control.port}`
  if (agents.length > 0)
    await until(async () => (await database.db.rows(availableHosts)).length >= agents.length, {
      what: 'the hosts to join and offer a hypervisor',
    })

  return {
    get control() {
      return control
    },
    gateway,
    database,
    bus,
    get api() {
      return api(base())
    },
    dir,
    addAgent,
    async restartControl() {
      await control.stop()
      control = await start()
    },
    async user(email = `user${++users}-${process.pid}@example.com`) {
      const password = 'quartz-otter-lantern-42'
      const anonymous = api(base())
      const registered = await anonymous.post('/v1/auth/register', {
        email,
        password,
        captcha_id: '',
        captcha_answer: '',
      })
      if (registered.status !== 200) throw new Error(`register: ${JSON.stringify(registered.body)}`)
      const login = await anonymous.post('/v1/auth/login', { email, password })
      if (login.status !== 200) throw new Error(`login: ${JSON.stringify(login.body)}`)
      const mine = anonymous.as(login.body.token)
      const projects = await mine.get('/v1/projects')
      return { ...mine, email, password, refreshToken: login.body.refresh_token, project: projects.body[0].tenant_id }
    },
    async [Symbol.asyncDispose]() {
      await gateway.stop(100)
      await control.stop()
      for (const agent of agents) await agent.stop({ stopVms: true })
      await bus.close()
      await database.drop()
      await rm(dir, { recursive: true, force: true })
      disown(dir)
    },
  }
}

const availableHosts = {
  name: 'test.availableHosts',
  text: `SELECT id FROM host WHERE hypervisors @> '[{"available": true}]'`,
}
