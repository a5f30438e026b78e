/** Tests route changes under an open-loop load: a request every 2 ms, without waiting for earlier responses. */
import { setTimeout as delay } from 'node:timers/promises'
import { Agent } from 'undici'
import { expect, it } from 'vitest'
import { gatewayFixture, hostname } from '../../test/support/gateway/gateway.ts'

const perSecond = 500
const forMs = 3000
const switchEveryMs = 250

it(`a route switch under ${perSecond} requests per second loses none`, async () => {
  await using fixture = await gatewayFixture()
  const app = (name: string) => fixture.backend((_, res) => void setTimeout(() => res.end(name), 3))
  const [blue, green] = [await app('blue'), await app('green')]
  await fixture.publish({ backends: [blue] })
  const agent = new Agent({ connections: 200 })
  const ask = async () => {
    const origin = `http://127.0.0.1:${fixture.gateway.port}`
    const { statusCode, body } = await agent.request({ origin, path: '/', method: 'GET', headers: { host: hostname } })
    return `${statusCode} ${await body.text()}`
  }
  const asked: Promise<string>[] = []
  const startedMs = performance.now()
  let switches = 0
  for (let nowMs = 0; nowMs < forMs || switches <= 5; nowMs = performance.now() - startedMs) {
    while (asked.length < (nowMs / 1000) * perSecond) asked.push(ask())
    if (nowMs > (switches + 1) * switchEveryMs)
      await fixture.publish({ backends: [switches++ % 2 === 0 ? green : blue] })
    await delay(2)
  }
  const answers = await Promise.all(asked)
  await agent.close()
  expect(answers.length).toBeGreaterThan((forMs / 1000) * perSecond * 0.9)
  expect(new Set(answers)).toEqual(new Set(['200 blue', '200 green']))
})
