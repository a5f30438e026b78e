import { createServer } from 'node:net'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { testLog } from '../../test/support/log.ts'
import { createTally } from '../lib/tally.ts'
import { watchProcess } from './watch.ts'

it('the metrics of a process, including stalls, are served until the watch is stopped', async () => {
  const watch = await watchProcess(testLog(), 0)
  const url = `http://127.0.0.1:${watch.port}/metrics`
  const text = await (await fetch(url)).text()
  for (const name of [
    'mote_event_loop_stall_seconds',
    'mote_event_loop_stalls_total',
    'mote_event_loop_waiting_seconds_total',
    'mote_process_cpu_seconds_total',
  ])
    expect(text).toContain(name)
  await watch.stop()
  await expect(fetch(url)).rejects.toThrow()
})

it('the metrics of an agent count refused guest requests by kind', async () => {
  const refused = createTally()
  const watch = await watchProcess(testLog(), 0, refused)
  const value = async () => /^mote_guest_refused_total\{kind="names"\} (\d+)$/m.exec(await page())?.[1]
  const page = async () => (await fetch(`http://127.0.0.1:${watch.port}/metrics`)).text()
  expect(await value()).toBeUndefined()
  refused.add('names', 3)
  refused.add('names', 4)
  expect([await value(), await value()]).toEqual(['7', '7'])
  await watch.stop()
})

it('a process is watched without a metrics port, and a port in use is reported', async () => {
  await (await watchProcess(testLog(), undefined)).stop()
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const address = other.address()
  const port = typeof address === 'object' && address ? address.port : 0
  await expect(watchProcess(testLog(), port)).rejects.toThrow(/EADDRINUSE/)
  other.close()
})
