/** Builds an app of each language with dependencies from the real package registries. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestAgent, testAgent } from '../../../test/support/agent/agent.ts'
import { type GitServer, gitServer } from '../../../test/support/agent/build.ts'
import { apps } from '../../../test/support/agent/build-apps.ts'
import { answerOf, buildOn } from '../../../test/support/agent/build-real.ts'
import { driverCases } from '../../../test/support/agent/hypervisor.ts'
import { runsAll } from '../../../test/support/all-examples.ts'
import { run } from '../../lib/exec.ts'
import { agentConfig } from '../base/config.ts'
import { hasToolImage, toolImages } from './tool-images.ts'

/** Names of the apps that `npm test` builds. `npm run test:all` builds all of them. */
const examples = ['zsh from Debian']

const unreachable = (url: string) =>
  run('curl', ['-sSf', '--max-time', '20', '-o', '/dev/null', url]).then(
    () => '',
    (error: unknown) => String(error),
  )

const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')
const { cacheDir } = agentConfig({ dataDir: '/', hostName: 'test' })
const lacking = toolImages.filter(name => !hasToolImage(cacheDir, name))
/** Why the tests are skipped. Only gVisor is used: under emulation, builds take more than ten minutes. */
const skipped =
  lacking.length > 0
    ? ` (skipped: no images ${lacking.join(', ')}; make them with: mote image build builder)`
    : gvisor?.skip
      ? ` (skipped: ${gvisor.name})`
      : ''

describe.skipIf(skipped !== '')(`builds with real package registries${skipped}`, { timeout: 600_000 }, () => {
  let git: GitServer
  let host: TestAgent
  beforeAll(async () => {
    git = await gitServer()
    host = await testAgent({ ...gvisor?.config })
    await host.agent.probed
  }, 120_000)
  afterAll(async () => {
    await host[Symbol.asyncDispose]()
    await git[Symbol.asyncDispose]()
  })

  const chosen = Object.entries(apps).filter(([name]) => runsAll || examples.includes(name))
  test.for(chosen)('%s builds and responds', async ([name, { registry, images = [], files, log, answer }], context) => {
    const absent = images.filter(image => !hasToolImage(cacheDir, image))
    context.skip(absent.length > 0, `no images ${absent.join(', ')}: the first build that needs them makes them`)
    const reason = registry === undefined ? '' : await unreachable(registry)
    context.skip(reason !== '', `${registry} is out of reach: ${reason}`)
    const id = name.split(' ', 1)[0]?.toLowerCase() ?? ''
    const built = await buildOn(host, git, files, { hypervisor: 'gvisor', appId: id })
    expect(built.log).toMatch(log)
    expect(built.log).not.toContain('the cache cannot be used')
    expect(await answerOf(host, `real-${id}`, built.image, 'gvisor')).toMatch(answer)
    if (id !== 'node') return
    const again = await buildOn(host, git, { ...files, 'b.js': '' }, { hypervisor: 'gvisor', appId: id })
    expect(again.log).toMatch(/^using Node v\d+/m)
    expect(again.log).not.toContain('NODE_PACKAGE')
  })
})
