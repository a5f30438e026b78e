import { expect, it } from 'vitest'
import { type TestApp, gatewayFixture } from '../../test/support/gateway/gateway.ts'
import { until } from '../../test/support/wait.ts'
import { type CountsReport, countsSubject } from '../contract/request-counts.ts'
import { newId } from '../lib/ids.ts'

const bare = ({ vmId, host, port }: TestApp) => ({ vmId, host, port })

it('a canary gets its share of requests, and its failures are reported and affect no other requests', async () => {
  await using fixture = await gatewayFixture()
  const reports: CountsReport[] = []
  await fixture.bus.serve(countsSubject, data => {
    reports.push(data as CountsReport)
    return {}
  })
  const stable = await fixture.backend((_, res) => res.end('old'))
  const failing = await fixture.backend((_, res) => {
    res.statusCode = 500
    res.end('new')
  })
  const deploymentId = newId()
  await fixture.publish({ backends: [stable], canary: { deploymentId, percent: 50, backends: [bare(failing)] } })
  const answers = await Promise.all(Array.from({ length: 200 }, () => fixture.get()))
  const failed = answers.filter(({ status }) => status === 500).length
  expect(answers.filter(({ status }) => status === 200).length + failed).toBe(200)
  expect(failed).toBe(failing.hits())
  // A result outside this range has a probability below 1 in a million.
  expect(failed).toBeGreaterThan(60)
  expect(failed).toBeLessThan(140)
  const sum = (pick: 'requests' | 'failed') =>
    reports.flatMap(({ canaries = [] }) => canaries).reduce((total, one) => total + one[pick], 0)
  await until(() => sum('failed') === failed, { what: 'the report of the canary' })
  expect(sum('requests')).toBe(failed)
  await fixture.publish({ backends: [stable] })
  const later = await Promise.all(Array.from({ length: 20 }, () => fixture.get()))
  expect(later.every(({ body }) => body === 'old')).toBe(true)
})

it('if the canary is unreachable, the old version serves the request, and the canary is reported as failed', async () => {
  await using fixture = await gatewayFixture()
  const reports: CountsReport[] = []
  await fixture.bus.serve(countsSubject, data => {
    reports.push(data as CountsReport)
    return {}
  })
  const stable = await fixture.backend((_, res) => res.end('old'))
  const deploymentId = newId()
  const dead = { vmId: 'dead', host: '127.0.0.1', port: 1 }
  await fixture.publish({ backends: [stable], canary: { deploymentId, percent: 99, backends: [dead] } })
  for (let n = 0; n < 10; n++) expect(await fixture.get()).toMatchObject({ status: 200, body: 'old' })
  await until(() => reports.some(({ canaries = [] }) => canaries.some(one => one.failed > 0)), {
    what: 'the report of the canary',
  })
})
