/** Builds with arguments and secrets in a real VM, with the images that `mote image build builder` makes. */
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestAgent, testAgent } from '../../../test/support/agent/agent.ts'
import { type GitServer, gitServer } from '../../../test/support/agent/build.ts'
import { answerOf, buildOn, type SourceFiles } from '../../../test/support/agent/build-real.ts'
import { driverCases } from '../../../test/support/agent/hypervisor.ts'
import type { BuildInputs } from '../../contract/agent.ts'
import { agentConfig } from '../base/config.ts'
import { hasToolImage, toolImages } from './tool-images.ts'

const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')
const hypervisor = gvisor && !gvisor.skip ? 'gvisor' : 'qemu'
const { cacheDir } = agentConfig({ dataDir: '/', hostName: 'test' })
const lacking = toolImages.filter(name => !hasToolImage(cacheDir, name))
const reason =
  lacking.length > 0 ? ` (skipped: no images ${lacking.join(', ')}; make them with: mote image build builder)` : ''

const busybox = '/bin/busybox'
const token = 'a token $HOME "quoted" `id`\nof two lines'
const inputs = (dockerfile: string, secret: string, level = 'it\'s $LEVEL "1"'): BuildInputs => ({
  dockerfile,
  args: { LEVEL: level },
  secrets: { TOKEN: secret },
})

describe.skipIf(reason !== '')(`builds with arguments and secrets${reason}`, { timeout: 600_000 }, () => {
  let git: GitServer
  let host: TestAgent
  beforeAll(async () => {
    git = await gitServer()
    host = await testAgent({ ...(hypervisor === 'gvisor' ? gvisor?.config : { hypervisor: 'qemu' }) })
    await host.agent.probed
  }, 120_000)
  afterAll(async () => {
    await host[Symbol.asyncDispose]()
    await git[Symbol.asyncDispose]()
  })
  const build = (files: SourceFiles, settings: BuildInputs, appId: string) =>
    buildOn(host, git, files, { hypervisor, appId, settings })

  test('build commands of a detected project get arguments and secrets as variables, and the log shows no secret', async () => {
    const print = `process.stdout.write(process.env.LEVEL + '|' + process.env.TOKEN)`
    const files = {
      'package.json': JSON.stringify({
        name: 'shop',
        scripts: { build: 'node make.js > made.txt; cat made.txt; echo', start: 'node server.js' },
      }),
      'make.js': print,
      'server.js': `const made = require('node:fs').readFileSync('made.txt', 'utf8')
        require('node:http').createServer((q, r) => r.end(made + '|' + process.env.TOKEN)).listen(process.env.PORT)`,
    }
    const { image, log } = await build(files, inputs('', token), 'inputs-node')
    expect(await answerOf(host, 'inputs-node', image, hypervisor)).toBe(`it's $LEVEL "1"|${token}|undefined`)
    expect(log).toContain(`it's $LEVEL "1"|***`)
    expect(log).not.toContain('a token')
    expect(log).not.toContain('of two lines')
  })

  test('a Dockerfile with another name gets arguments and mounts secrets, and no image layer contains a secret', async context => {
    context.skip(!existsSync(busybox), "needs Debian's busybox-static")
    const files = {
      'docker/web.Dockerfile': `FROM scratch
COPY --chmod=755 busybox /bin/busybox
ARG LEVEL
RUN --mount=type=secret,id=TOKEN ["/bin/busybox", "sh", "-c", "/bin/busybox sha256sum /run/secrets/TOKEN > /sum; echo \\"level $LEVEL\\" > /level; /bin/busybox cat /run/secrets/TOKEN"]
`,
      busybox: await readFile(busybox),
    }
    const first = await build(files, inputs('docker/web.Dockerfile', token), 'inputs-docker')
    expect(first.log).toContain('found a Dockerfile')
    expect(first.log).not.toContain('of two lines')
    const bytes = await contentOf(host.config.imageDir, 'inputs-docker')
    expect(bytes).toContain('level it\'s $LEVEL "1"')
    expect(bytes).not.toContain('of two lines')
    const other = await build(files, inputs('docker/web.Dockerfile', 'another token'), 'inputs-docker')
    expect(other.image).not.toBe(first.image)
  })

  test('a build whose Dockerfile is not in the source fails with the path of the Dockerfile', async () => {
    await expect(build({ 'a.txt': '' }, inputs('Dockerfile.prod', token), 'inputs-none')).rejects.toThrow(
      'The source has no file "Dockerfile.prod". Correct the path of the Dockerfile (build.dockerfile).',
    )
  })
})

/** Returns all blobs of an app's images, decompressed. */
async function contentOf(imageDir: string, appId: string): Promise<string> {
  const parts: string[] = []
  for (const name of (await readdir(imageDir)).filter(one => one.includes(appId))) {
    const blobs = join(imageDir, name, 'blobs', 'sha256')
    for (const blob of await readdir(blobs)) {
      const bytes = await readFile(join(blobs, blob))
      parts.push((bytes[0] === 0x1f ? gunzipSync(bytes) : bytes).toString('latin1'))
    }
  }
  return parts.join('\n')
}
