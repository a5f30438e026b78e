/** Builds repositories in real VMs, on an agent that only this file uses. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { itInAll } from '../../../test/support/all-examples.ts'
import { until } from '../../../test/support/wait.ts'
import { type BuildObserved, type BuildPut, subjects } from '../../contract/agent.ts'
import { type TestAgent, testAgent, testSpec, vmmsIn } from '../../../test/support/agent/agent.ts'
import { emulatedBuild, type GitServer, gitServer } from '../../../test/support/agent/build.ts'

const tools = ['/usr/bin/qemu-system-x86_64', '/usr/bin/umoci', '/usr/bin/git'].every(file => existsSync(file))

describe.skipIf(!tools)('builds (need qemu, umoci, git)', { timeout: 240_000 }, () => {
  let git: GitServer
  let agent: TestAgent
  let builds = 0
  beforeAll(async () => {
    git = await gitServer()
    agent = await testAgent({ hypervisor: 'qemu', network: 'user' })
    await agent.agent.probed
  }, 120_000)
  afterAll(async () => {
    await agent[Symbol.asyncDispose]()
    await git[Symbol.asyncDispose]()
  })

  const desired = (change: Partial<BuildPut['spec']> = {}) => emulatedBuild(git.url, `build-${++builds}`, change)
  const put = async (data: BuildPut) =>
    (await agent.bus.request(subjects.hostIn(agent.agent.hostId, 'build.put'), data, {
      timeoutMs: 5000,
    })) as BuildObserved
  const over = (data: BuildPut) =>
    until(
      async () => ((observed: BuildObserved) => /succeeded|failed/.test(observed.state) && observed)(await put(data)),
      {
        what: 'the build has ended',
        timeoutMs: 120_000,
        everyMs: 50,
      },
    )
  const logOf = async ({ buildId }: BuildPut) =>
    (await agent.logs(buildId)).map(({ stream, line }) => `${stream} ${line}`)

  test('a static site becomes an image that serves it, and the build VM leaves nothing behind', async () => {
    const hash = await git.push({ 'index.html': '<h1>first</h1>', 'sub/page.txt': 'deep' }, { message: 'A site' })
    const build = desired()
    const observed = await over(build)
    expect(observed).toMatchObject({
      state: 'succeeded',
      commit: { branch: 'main', hash, message: 'A site' },
      error: null,
    })
    expect(observed.image).toMatch(/^oci:app-a1:sha256-[0-9a-f]{64}$/)
    const log = await logOf(build)
    expect(log.every(line => line.startsWith('build '))).toBe(true)
    expect(log).toContain('build found a static site')
    expect(await vmmsIn(agent.config.dataDir)).toEqual([])
    expect(existsSync(join(agent.config.dataDir, 'builds', build.buildId, 'work'))).toBe(false)

    const again = desired()
    expect((await over(again)).image).toBe(observed.image)

    const spec = testSpec({ image: observed.image ?? '', healthCheckPath: '/' })
    await agent.put({ vmId: 'site', generation: 1, want: 'running', spec })
    const { endpoint } = await agent.until('site', 'healthy', vm => vm.healthy)
    const answer = await fetch(`http://${endpoint?.host}:${endpoint?.port}/sub/page.txt`)
    expect(await answer.text()).toBe('deep')
  })

  test('a failed build reports the reason, and a request with an older generation is rejected', async () => {
    await git.push({ 'README.md': 'nothing to build' })
    const build = desired()
    expect(await over(build)).toMatchObject({ state: 'failed', error: expect.stringContaining('Add a Dockerfile') })
    await expect(put({ ...build, generation: 0 })).rejects.toThrow()
    expect(await put({ ...build, generation: 2, want: 'absent' })).toMatchObject({ state: 'absent', generation: 2 })
    await expect(put(build)).rejects.toThrow(/older/)
    expect((await logOf(build)).at(-1)).toContain('Add a Dockerfile')
  })

  test('a build that is canceled while it runs becomes absent and its VM is removed', async () => {
    await git.push({ 'index.html': 'x' })
    const build = desired()
    await put(build)
    await until(async () => (await put(build)).state === 'building', { what: 'it builds', timeoutMs: 60_000 })
    const gone = { ...build, generation: 2, want: 'absent' } as const
    await until(async () => (await put(gone)).state === 'absent', { what: 'it is absent', timeoutMs: 30_000 })
    await until(async () => (await vmmsIn(agent.config.dataDir)).length <= 1, {
      what: 'its VM is removed',
    })
  })

  test('a build that exceeds its time limit fails', async () => {
    const build = desired({ timeLimitMs: 300 })
    expect(await over(build)).toMatchObject({ state: 'failed', error: expect.stringContaining('longer than') })
  })

  // Not in `npm test`: crash.test.ts covers both after a kill of the agent.
  itInAll('a restarted agent restarts unfinished builds and keeps the outcomes of finished ones', async () => {
    const hash = await git.push({ 'index.html': 'again' })
    const build = desired()
    await put(build)
    await agent.restart()
    expect(await over(build)).toMatchObject({ state: 'succeeded', commit: { hash } })
    await agent.restart()
    expect((await put(build)).state).toBe('succeeded')
  })
})
