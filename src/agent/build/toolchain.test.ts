/** Builds that need compilers: only where the builder images are, since making them takes minutes once. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { type BuildObserved, type BuildPut, subjects, type VmObserved } from '../../contract/agent.ts'
import { agentConfig } from '../config.ts'
import { type TestAgent, testAgent, testSpec } from '../testing.ts'
import { type GitServer, gitServer } from './testing.ts'
import { toolReference } from './tool-images.ts'

const { cacheDir } = agentConfig({ dataDir: '/nonexistent', hostName: 'test' })
const there = (['builder', 'node'] as const).every(name =>
  existsSync(join(cacheDir, 'tool-images', toolReference(name).slice(4), 'index.json')),
)
const reason = there ? '' : '(skipped: run mote image build builder once)'

describe.skipIf(!there)(`builds with compilers ${reason}`, { timeout: 600_000 }, () => {
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

  const built = async (files: Readonly<Record<string, string>>) => {
    await git.push(files)
    const put: BuildPut = {
      ...{ buildId: `compiled-${++builds}`, generation: 1, want: 'present' },
      spec: {
        ...{ projectId: 'p1', appId: 'a1', deploymentId: 'd1', hypervisor: 'qemu', vcpus: 1, memoryMib: 1024 },
        ...{ source: { url: git.url, branch: '', commit: '', allowPrivate: true }, diskMib: 4096 },
        ...{ timeLimitMs: 540_000, repository: null },
      },
    }
    const subject = subjects.hostIn(agent.agent.hostId, 'build.put')
    const ask = async () => (await agent.bus.request(subject, put, { timeoutMs: 10_000 })) as BuildObserved
    const seen = await until(
      async () => ((one: BuildObserved) => /succeeded|failed/.test(one.state) && one)(await ask()),
      {
        ...{ what: 'the build is over', timeoutMs: 560_000, everyMs: 200 },
      },
    )
    const log = (await agent.logs(put.buildId)).map(({ line }) => line)
    if (seen.state !== 'succeeded') throw new Error(`${seen.error}\n${log.join('\n')}`)
    return { image: seen.image ?? '', log }
  }
  const answerOf = async (vmId: string, image: string) => {
    const spec = testSpec({ image, memoryMib: 256, healthCheckPath: '/' })
    await agent.put({ vmId, generation: 1, want: 'running', spec })
    // A program of an interpreter takes its time to start under emulation.
    const seen = await until(async () => ((vm: VmObserved) => vm.healthy && vm)(await agent.get(vmId)), {
      ...{ what: `${vmId} is healthy`, timeoutMs: 240_000, everyMs: 100 },
    })
    return (await fetch(`http://${seen.endpoint?.host}:${seen.endpoint?.port}/`)).text()
  }

  test('a Node project runs as its user', async () => {
    const { image } = await built({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js', build: 'echo made > made.txt' } }),
      'server.js': `require('node:http').createServer((q, r) => r.end(require('node:fs').readFileSync('made.txt', 'utf8') + process.getuid())).listen(process.env.PORT)`,
    })
    expect(await answerOf('node', image)).toBe('made\n1000')
  })

  test('a Dockerfile is built by buildah, layer by layer, and the second time from its cache', async () => {
    const files = {
      Dockerfile: 'FROM scratch\nCOPY index.html /www/\nCOPY other /www/\nCMD ["/www"]\n',
      ...{ 'index.html': 'from a Dockerfile', other: '1' },
    }
    const first = await built(files)
    expect(first.log).toContain('found a Dockerfile')
    const second = await built({ ...files, other: '2' })
    expect(second.image).not.toBe(first.image)
    expect(second.log.join('\n')).toMatch(/Using cache/)
  })
})
