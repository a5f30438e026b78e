/**
 * Program that runs an agent and starts a build, for tests that kill it. Prints a line for each state of the build, with
 * the error of a failed one.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type BuildObserved, subjects } from '../../../src/contract/agent.ts'
import { testAgent } from './agent.ts'

const [dataDir = '', desired = ''] = process.argv.slice(2)
const host = await testAgent({ dataDir, hypervisor: 'qemu', network: 'user' })
await host.agent.probed
const subject = subjects.hostIn(host.agent.hostId, 'build.put')
const ask = async () => (await host.bus.request(subject, JSON.parse(desired), { timeoutMs: 10_000 })) as BuildObserved
for (let seen = ''; ; await sleep(20)) {
  const { state: now, error } = await ask()
  if (now !== seen) process.stdout.write(`${now} ${error ?? ''}\n`)
  seen = now
}
