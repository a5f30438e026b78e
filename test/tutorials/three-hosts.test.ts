// Not repeated on the distribution's PostgreSQL: this file follows a tutorial with the built program.
/**
 * Runs the commands of the tutorial "three hosts", with other names and addresses. Runs only in `npm run test:all`:
 * in `npm test`, test/system/mesh.test.ts moves VMs between hosts in network namespaces.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { minutes } from '../../src/lib/duration.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { natsMissing } from '../support/nats.ts'
import { runsAll } from '../support/all-examples.ts'
import { until } from '../support/wait.ts'
import { newReader } from './reader.ts'

const needed = ['qemu-system-x86_64', 'script', 'curl', 'ip', 'nft', 'wg', 'wireguard-go']
const missing = (await Promise.all(needed.map(hasProgram))).flatMap((there, at) => (there ? [] : [needed[at]]))
const why =
  process.getuid?.() !== 0
    ? 'needs root'
    : (natsMissing ?? (missing.length > 0 ? `not installed: ${missing.join(', ')}` : ''))

/** Replaces the prefix `mt-` of the tutorial's names with one that is unique to this process. */
const prefix = `mt${(process.pid % 36 ** 3).toString(36)}-`
/** Replaces the tutorial's network 10.99.0.0/24 with one in 198.18.0.0/15, which RFC 2544 reserves for tests. */
const network = `198.${18 + (process.pid % 2)}.${(process.pid >> 1) % 256}.`
const rename = (text: string) => text.replaceAll('mt-', prefix).replaceAll('10.99.0.', network)
const hosts = ['cloud', 'host-1', 'host-2'].map(name => `${prefix}${name}`)

const run = async (...[program = '', ...args]: string[]) => (await promisify(execFile)(program, args)).stdout
const namespaces = async () => (await run('ip', 'netns', 'list')).split('\n').map(line => line.split(' ')[0])

const pidsIn = async (host: string) =>
  (await run('ip', 'netns', 'pids', host).catch(() => '')).split('\n').filter(Boolean).map(Number)

function signal(pids: readonly number[], name: 'SIGTERM' | 'SIGKILL'): void {
  for (const pid of pids)
    try {
      process.kill(pid, name)
    } catch {
      // The process has exited in the meantime.
    }
}

/**
 * Kills the processes and removes the network namespaces of a tutorial that failed halfway. SIGTERM comes first,
 * because agents then stop their VMs.
 */
async function clear(): Promise<void> {
  await run('ip', 'link', 'delete', `${prefix}lan`).catch(() => undefined)
  for (const host of hosts.toReversed()) {
    signal(await pidsIn(host), 'SIGTERM')
    const isEmpty = async () => (await pidsIn(host)).length === 0
    await until(isEmpty, { what: `the programs of ${host} to end` }).catch(() => undefined)
    signal(await pidsIn(host), 'SIGKILL')
    await run('ip', 'netns', 'delete', host).catch(() => undefined)
  }
}

it('the tutorial "three hosts" works as written', { timeout: minutes(15) }, async context => {
  context.skip(!runsAll, 'runs with npm run test:all')
  context.skip(why !== '', why)
  await using undo = new AsyncDisposableStack()
  const reader = undo.use(await newReader({ rename }))
  undo.defer(clear)
  await reader.follow('docs/tutorials/three-hosts.md')
  expect((await namespaces()).filter(name => name?.startsWith(prefix))).toEqual([])
})
