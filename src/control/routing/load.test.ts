import { expect, it } from 'vitest'
import { createRequestLoad } from './load.ts'

const app = (busyMs: number, open = 0) => ({ appId: 'a', requests: 1, errors: 0, open, lastRequestAtMs: 0, busyMs })
const report = (gatewayId: string, busyMs: number) => ({ gatewayId, atMs: 0, periodMs: 5000, apps: [app(busyMs)] })

it("an app's open requests are added up over all gateways except those that have stopped reporting", () => {
  const load = createRequestLoad()
  load.record(report('one', 10_000), 0)
  load.record(report('two', 5_000), 4_000)
  expect(load.open('a', 5_000)).toBe(3)
  expect(load.open('b', 5_000)).toBe(0)
  load.record(report('one', 0), 6_000)
  expect(load.open('a', 7_000)).toBe(1)
  expect(load.open('a', 30_000)).toBe(0)
})
