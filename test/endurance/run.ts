/**
 * `npm run endurance [-- --minutes 10]` builds the programs and runs two instances of each, idle for half of the time
 * and under light use for the other half. It prints the resources that they held, and exits with 1 if any grew.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { buildPrograms } from '../../scripts/build.mjs'
import { databaseUrl, startPrivateServer, templateName } from '../support/global-setup.ts'
import { natsMissing } from '../support/nats.ts'
import { endurance } from './endurance.ts'
import { tableOf } from './growth.ts'

const { values: flags } = parseArgs({ options: { minutes: { type: 'string', default: '10' } } })
const minutes = Number(flags.minutes)
const say = (line: string) => void process.stdout.write(`${line}\n`)

if (!(minutes > 0)) {
  process.stderr.write(`--minutes: "${flags.minutes}" is not a number of minutes\n`)
  process.exit(2)
}
if (natsMissing !== undefined) {
  process.stderr.write(`${natsMissing}\n`)
  process.exit(2)
}

// The interval keeps this process alive, because the child processes that it awaits do not.
const awake = setInterval(() => undefined, 1_000)
await using cleanup = new AsyncDisposableStack()
cleanup.defer(() => clearInterval(awake))
await buildPrograms()
const server = cleanup.use(await startPrivateServer('embedded'))
if (!server) throw new Error('no PostgreSQL server programs: run npm install')
const { idle, used, work } = await endurance({
  main: join(import.meta.dirname, '..', '..', 'dist', 'mote.js'),
  databaseUrl: databaseUrl(server.adminUrl, templateName),
  observerUrl: server.adminUrl,
  seconds: minutes * 30,
  sampleMs: 2_000,
  allowance: { count: 2, pooled: 10, mib: 16 },
})
say(tableOf(`idle, ${minutes / 2} min`, idle))
say('')
say(tableOf(`light use, ${minutes / 2} min`, used))
say(
  `\n${work.requests} requests through the gateways, ${work.deployments} deployments, ${work.streams} event streams, ${work.connections} connections through a TCP service, ${work.images ?? 'no'} images pushed and pulled`,
)
const growing = [...idle, ...used].filter(({ grows }) => grows)
if (growing.length > 0) {
  process.stderr.write(`These grow: ${growing.map(({ name }) => name).join(', ')}\n`)
  process.exitCode = 1
}
