/**
 * Not repeated on the distribution's PostgreSQL: this file tests log lines.
 * A trace id is passed from the request through the bus to the host.
 */
import { Writable } from 'node:stream'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'

it('the logs of the control plane and the host share the trace id of a deploy', async () => {
  const lines: Record<string, unknown>[] = []
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(JSON.parse(chunk.toString()))
      done()
    },
  })
  await using system = await testSystem({ log: pino({ level: 'info' }, sink) })
  const user = await system.user()
  await user.post('/v1/apps', { name: 'traced', git_url: '' })
  await user.post('/v1/apps', { name: 'other', git_url: '' })
  const headers = { traceparent: `00-${traceId}-00f067aa0ba902b7-01`, 'x-request-id': 'deploy-1' }
  const deployed = await user.post('/v1/apps/traced/deploy', { image: 'example/app:1' }, headers)
  const other = await user.post('/v1/apps/other/deploy', { image: 'example/app:1' })
  const accepted = (vmId: string) => lines.find(line => line['msg'] === 'VM accepted' && line['vmId'] === vmId)
  const [traced, untraced] = await until(
    () => {
      const found = [accepted(deployed.body.vm_id), accepted(other.body.vm_id)]
      return found.every(line => line !== undefined) && found
    },
    { what: 'the host to accept both VMs' },
  )
  expect(traced).toMatchObject({ trace_id: traceId })
  expect(untraced?.['trace_id']).toMatch(/^[0-9a-f]{32}$/)
  expect(untraced?.['trace_id']).not.toBe(traceId)
  expect(lines.find(line => line['msg'] === 'request' && line['trace_id'] === traceId)).toMatchObject({
    operation: 'deployApp',
    request_id: 'deploy-1',
  })
})
