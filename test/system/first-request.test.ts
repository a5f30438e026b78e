/**
 * An app whose deployment is reported as running is reachable through every gateway, even if route notifications are
 * late.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Bus } from '../../src/bus/bus.ts'
import { gatewaySubjects } from '../../src/contract/gateway.ts'
import { gatewayDefaults } from '../../src/gateway/config.ts'
import { type Gateway, startGateway } from '../../src/gateway/main.ts'
import { viaGateway } from '../support/http.ts'
import { testLog } from '../support/log.ts'
import { type TestSystem, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

const tries = 20
let system: TestSystem
const gateways: Gateway[] = []

/** Wraps a bus so that route notifications never arrive, which is worse than late notifications. */
const withoutNotifications = (bus: Bus): Bus =>
  new Proxy(bus, {
    get(target, name) {
      if (name === 'subscribe')
        return async (...args: Parameters<Bus['subscribe']>) =>
          args[0] === gatewaySubjects.routeChanged ? { stop: async () => undefined } : target.subscribe(...args)
      const member: unknown = Reflect.get(target, name)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })

beforeAll(async () => {
  system = await testSystem()
  const bus = withoutNotifications(system.bus)
  for (let n = 0; n < 2; n++)
    gateways.push(await startGateway({ ...gatewayDefaults, host: '127.0.0.1', port: 0 }, { bus, log: testLog() }))
  await until(() => gateways.every(one => one.ready()), { what: 'the gateways to load their routes' })
})
afterAll(async () => {
  for (const gateway of gateways) await gateway.stop(100)
  await system[Symbol.asyncDispose]()
})

it(`every gateway serves each of ${tries} apps as soon as it is reported as running`, async () => {
  const user = await system.user()
  for (let n = 0; n < tries; n++) {
    const app = `app-${n}`
    const { hostname } = (await user.post('/v1/apps', { name: app, git_url: '', drain_timeout: 0 })).body
    const { job_id } = (await user.post(`/v1/apps/${app}/deploy`, { image: 'example/app:1' })).body
    const status = async () => (await user.get(`/v1/apps/${app}/deployments/${job_id}`)).body.status
    await until(async () => (await status()) === 'running', { what: `${app} runs`, everyMs: 1 })
    const ports = [system.gateway, ...gateways].map(({ port }) => port)
    const answers = await Promise.all(ports.map(port => viaGateway(port, hostname)))
    expect(answers.map(({ status: code }) => code)).toEqual([200, 200, 200])
    await user.delete(`/v1/apps/${app}`)
  }
})
