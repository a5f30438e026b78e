import { once } from 'node:events'
import { afterAll, describe, expect, it } from 'vitest'
import { bearer, createFixture } from '../../../test/support/api-fixture.ts'
import { createMetrics, createMetricsServer } from './metrics.ts'

const stalls = { longestMs: () => 1500, stalls: () => 3, waitedMs: () => 250 }
const metrics = createMetrics(() => 7, stalls)
const fixture = createFixture({ observe: metrics.request })
const server = createMetricsServer(metrics)
afterAll(async () => {
  server.close()
  await fixture.app.close()
})

describe('metrics', () => {
  it('count requests and workflow steps, and report open streams and event loop stalls', async () => {
    const address = await fixture.app.listen({ port: 0, host: '127.0.0.1' })
    await (await fetch(`${address}/v1/things/x`, { headers: bearer('ann') })).text()
    await (await fetch(`${address}/v1/things/secret-name-in-no-metric`)).text()
    await (await fetch(`${address}/v1/nowhere`)).text()
    metrics.step('vm', 'placing', 'go', 0.02)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const bound = server.address()
    const port = typeof bound === 'object' && bound ? bound.port : 0
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    expect(text).toContain('mote_http_request_seconds_count{operation="getThing",method="GET",status="200"} 1')
    expect(text).toContain('mote_http_request_seconds_count{operation="getThing",method="GET",status="401"} 1')
    expect(text).toContain('mote_http_request_seconds_count{operation="unknown",method="GET",status="404"} 1')
    expect(text).toContain('mote_workflow_step_seconds_count{kind="vm",phase="placing",outcome="go"} 1')
    expect(text).toContain('mote_http_open_streams 7')
    expect(text).toContain('mote_nodejs_eventloop_lag_seconds')
    expect(text).toContain('mote_event_loop_stall_seconds 1.5')
    expect(text).toContain('mote_event_loop_stalls_total 3')
    expect(text).toContain('mote_event_loop_waiting_seconds_total 0.25')
    expect(text).not.toContain('secret-name')
    expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(404)
  })

  it('are not served at the port of the API', async () => {
    expect((await fixture.app.inject({ url: '/metrics' })).statusCode).toBe(404)
  })
})
