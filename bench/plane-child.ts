/**
 * Runs a control plane in its own process, to separate its CPU and memory from those of its clients. The environment
 * contains its settings (MOTE_*) and its database (DATABASE_URL). The parent sends heartbeats of hosts, which this
 * process publishes every second.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { pino } from 'pino'
import { createMemoryBus } from '../src/bus/memory.ts'
import type { HostHeartbeat } from '../src/contract/agent.ts'
import { subjects } from '../src/contract/agent.ts'
import { parseControlConfig } from '../src/control/base/config.ts'
import { startControl } from '../src/control/main.ts'
import { serveIdleSessions } from './sessions-host.ts'
import { watchTurns } from './event-loop.ts'
import { connectDb } from '../src/db/connect.ts'

const log = pino({ level: 'fatal' })
const bus = createMemoryBus()
await serveIdleSessions(bus)
const db = await connectDb({ url: process.env['DATABASE_URL'] ?? '', log })
const control = await startControl({
  config: parseControlConfig(process.env),
  db,
  bus,
  log,
  host: '127.0.0.1',
  port: 0,
})

let heartbeats: readonly HostHeartbeat[] = []
const timer = setInterval(() => {
  for (const heartbeat of heartbeats) void bus.publish(subjects.heartbeat(heartbeat.hostId), heartbeat)
}, 1000)
/** Started by the first message `turns`: sampling takes 5 % of a core, which would slow down the other benchmarks. */
let turns: ReturnType<typeof watchTurns> | undefined
process.on('message', (message: readonly HostHeartbeat[] | 'collect' | 'turns') => {
  if (message === 'turns') process.send?.((turns ??= watchTurns())())
  else if (message !== 'collect') heartbeats = message
  else {
    collectGarbage()
    const { heapUsed, external } = process.memoryUsage()
    process.send?.({ liveBytes: heapUsed + external })
  }
})
process.once('disconnect', () => process.exit(1))
process.once('SIGTERM', async () => {
  clearInterval(timer)
  await control.stop()
  await db.close()
  await bus.close()
  process.exit(0)
})
process.send?.({ port: control.port })

function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const collect: unknown = runInNewContext('gc')
  if (typeof collect === 'function') collect()
}
