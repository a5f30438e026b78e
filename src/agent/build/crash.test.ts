/**
 * Kills the agent with SIGKILL during a build. The next agent starts the build over, and exactly one image and no other
 * files remain.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { runsAll } from '../../../test/support/all-examples.ts'
import { until } from '../../../test/support/wait.ts'
import { type BuildObserved, type BuildPut, subjects } from '../../contract/agent.ts'
import { testAgent, testDir, vmmsIn } from '../../../test/support/agent/agent.ts'
import { emulatedBuild, gitServer } from '../../../test/support/agent/build.ts'

const tools = ['/usr/bin/qemu-system-x86_64', '/usr/bin/umoci', '/usr/bin/git'].every(file => existsSync(file))
const child = fileURLToPath(new URL('../../../test/support/agent/build-crash-child.ts', import.meta.url))

/** Runs an agent until it reports the build in this state, then kills the agent. */
async function crashWhile(state: string, dataDir: string, desired: BuildPut): Promise<void> {
  const agent = spawn(process.execPath, [child, dataDir, JSON.stringify(desired)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(agent, 'exit')
  let states = ''
  agent.stdout.setEncoding('utf8').on('data', (text: string) => (states += text))
  const isReached = () => {
    if (agent.exitCode !== null || /failed|succeeded/.test(states)) throw new Error(`too late to kill it: ${states}`)
    return states.includes(state)
  }
  try {
    await until(isReached, { what: `the state ${state}`, timeoutMs: 60_000, everyMs: 20 })
    if (state === 'building')
      await until(async () => isReached() && (await vmmsIn(dataDir)).length > 0, {
        what: 'its VM',
        timeoutMs: 60_000,
        everyMs: 20,
      })
  } finally {
    agent.kill('SIGKILL')
    await exited
  }
}

test.skipIf(!tools)(
  'an agent that was killed during a build starts the build over (needs qemu, umoci, git)',
  { timeout: 240_000 },
  async () => {
    await using git = await gitServer()
    const hash = await git.push({ 'index.html': 'made after all' })
    const desired = emulatedBuild(git.url, 'build-1')
    await using dir = await testDir()
    const dataDir = join(dir.path, 'data')
    // Only partly in `npm test`: a kill while the VM builds covers a kill during the fetch, because the next agent starts
    // the build over in both cases.
    if (runsAll) await crashWhile('fetching', dataDir, desired)
    await crashWhile('building', dataDir, desired)
    expect(await vmmsIn(dataDir)).toHaveLength(1)

    await using host = await testAgent({ dataDir, hypervisor: 'qemu', network: 'user' })
    await host.agent.probed
    await until(async () => (await vmmsIn(dataDir)).length === 0, { what: 'the stray VM is ended' })
    const left = join(dataDir, 'builds', desired.buildId)
    expect(existsSync(join(left, 'work'))).toBe(false)
    const put = async (data: BuildPut) =>
      (await host.bus.request(subjects.hostIn(host.agent.hostId, 'build.put'), data, {
        timeoutMs: 5000,
      })) as BuildObserved
    const observed = await until(
      async () => ((one: BuildObserved) => /succeeded|failed/.test(one.state) && one)(await put(desired)),
      { what: 'the build has ended', timeoutMs: 120_000, everyMs: 50 },
    )
    expect(observed).toMatchObject({ state: 'succeeded', commit: { hash }, error: null })
    await host.restart()
    expect((await put(desired)).state, 'the next agent knows the outcome').toBe('succeeded')
    expect((await put({ ...desired, generation: 2, want: 'absent' })).state).toBe('absent')

    expect(await vmmsIn(dataDir)).toEqual([])
    expect(await readdir(join(dataDir, 'vms'))).toEqual([])
    expect((await readdir(left)).sort()).toEqual(['log.new', 'outcome.json'])
    expect((await readdir(join(dataDir, 'images'))).filter(name => name.startsWith('app-'))).toEqual(['app-a1'])
    expect(await readdir(join(dataDir, 'build-cache'))).toEqual(['a1.img'])
  },
)
