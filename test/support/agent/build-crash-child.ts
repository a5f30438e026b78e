/**
 * Program that runs an agent and starts a build, for tests that kill it. Prints a line once the build reaches the
 * requested state.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type BuildObserved, subjects } from '../../../src/contract/agent.ts'
import { testAgent } from './agent.ts'

const [dataDir = '', desired = '', state = ''] = process.argv.slice(2)
const host = await testAgent({ dataDir, hypervisor: 'qemu', network: 'user' })
await host.agent.probed
const subject = subjects.hostIn(host.agent.hostId, 'build.put')
const ask = async () => (await host.bus.request(subject, JSON.parse(desired), { timeoutMs: 10_000 })) as BuildObserved
while ((await ask()).state !== state) await sleep(1)
process.stdout.write(`${state}\n`)
await sleep(600_000)
