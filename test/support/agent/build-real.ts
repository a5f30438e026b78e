/** Builds an app in a real VM, runs the built image, and sends it a request. */
import { type BuildObserved, type BuildPut, subjects, type VmObserved } from '../../../src/contract/agent.ts'
import { until } from '../wait.ts'
import { type TestAgent, testSpec } from './agent.ts'
import { emulatedBuild, type GitServer } from './build.ts'

export type SourceFiles = Readonly<Record<string, string | Buffer>>

let builds = 0

/** Pushes files to the Git server and builds them. @throws Error with the build log if the build fails */
export async function buildOn(
  host: TestAgent,
  git: GitServer,
  files: SourceFiles,
  change: Partial<BuildPut['spec']> = {},
): Promise<{ image: string; log: string }> {
  await git.push(files)
  const put = emulatedBuild(git.url, `compiled-${++builds}`, {
    memoryMib: 1024,
    diskMib: 4096,
    timeLimitMs: 540_000,
    ...change,
  })
  const subject = subjects.hostIn(host.agent.hostId, 'build.put')
  const ask = async () => (await host.bus.request(subject, put, { timeoutMs: 10_000 })) as BuildObserved
  const observed = await until(
    async () => ((one: BuildObserved) => /succeeded|failed/.test(one.state) && one)(await ask()),
    { what: 'the build has ended', timeoutMs: 560_000, everyMs: 200 },
  )
  const log = (await host.logs(put.buildId)).map(({ line }) => line)
  if (observed.state !== 'succeeded') throw new Error(`${observed.error}\n${log.join('\n')}`)
  return { image: observed.image ?? '', log: log.join('\n') }
}

/** Runs an image in a VM until it is healthy, and returns its response at `/`. */
export async function answerOf(
  host: TestAgent,
  vmId: string,
  image: string,
  hypervisor: BuildPut['spec']['hypervisor'] = 'qemu',
): Promise<string> {
  const spec = testSpec({ image, hypervisor, memoryMib: 256, healthCheckPath: '/' })
  await host.put({ vmId, generation: 1, want: 'running', spec })
  // Long timeout, because interpreters start slowly under emulation.
  const observed = await until(async () => ((vm: VmObserved) => vm.healthy && vm)(await host.get(vmId)), {
    what: `${vmId} is healthy`,
    timeoutMs: 240_000,
    everyMs: 100,
  }).catch(async (error: unknown) => {
    throw new Error((await host.logs(vmId)).map(({ line }) => line).join('\n'), { cause: error })
  })
  const text = await (await fetch(`http://${observed.endpoint?.host}:${observed.endpoint?.port}/`)).text()
  await host.put({ vmId, generation: 2, want: 'absent', spec })
  return text
}
