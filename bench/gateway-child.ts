/**
 * Runs a gateway with one route, to measure it. Arguments: `<port> <port of the app> [directory]`. With a directory,
 * the gateway also configures the HAProxy whose files are in that directory.
 */
import { pino } from 'pino'
import { createMemoryBus } from '../src/bus/memory.ts'
import { type Route, gatewaySubjects } from '../src/contract/gateway.ts'
import { gatewayDefaults } from '../src/gateway/config.ts'
import { startGateway } from '../src/gateway/main.ts'
import { haproxyShape } from './gateway-servers.ts'

const [port = '', upstream = '', dir = ''] = process.argv.slice(2)
const bus = createMemoryBus()
const route: Route = {
  hostname: 'bench.localhost',
  projectId: 'p',
  appId: 'a',
  state: 'live',
  drainSeconds: 1,
  version: 1,
  backends: [{ vmId: 'v', host: '127.0.0.1', port: Number(upstream) }],
}
await bus.serve(gatewaySubjects.routes, () => ({ version: 2, routes: [route] }))
const publish = { ...gatewayDefaults.publish, ...(dir === '' ? {} : { haproxy: haproxyShape(dir) }) }
const config = { ...gatewayDefaults, host: '127.0.0.1', port: Number(port), publish }
const gateway = await startGateway(config, { bus, log: pino({ level: 'silent' }) })
process.once('SIGTERM', () => {
  void gateway.stop(0).then(() => process.exit(0))
})
