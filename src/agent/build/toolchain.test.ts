/** Builds a repository of each kind in a VM and runs the result, with the images of `mote image build builder`. */
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, type TestContext } from 'vitest'
import { hasProgram } from '../../lib/programs.ts'
import { type AgentConfig, agentConfig } from '../base/config.ts'
import { type TestAgent, testAgent, testDir } from '../../../test/support/agent/agent.ts'
import { type GitServer, gitServer } from '../../../test/support/agent/build.ts'
import { registryOutside } from '../../../test/support/agent/build-registry.ts'
import { answerOf, buildOn, type SourceFiles } from '../../../test/support/agent/build-real.ts'
import { driverCases } from '../../../test/support/agent/hypervisor.ts'
import { runsAll } from '../../../test/support/all-examples.ts'
import { wheel } from '../../../test/support/agent/build-wheel.ts'
import { ensureToolImage, hasToolImage, toolImages, toolReference } from './tool-images.ts'

let missing = ''
let git: GitServer

const qemu: Driver = {
  name: 'qemu',
  hypervisor: 'qemu',
  config: { hypervisor: 'qemu', network: process.getuid?.() === 0 ? 'tap' : 'user' },
}
interface Driver {
  readonly name: string
  readonly hypervisor: 'qemu' | 'gvisor'
  readonly config: Partial<AgentConfig>
}
const [sandbox] = (await driverCases()).filter(({ spec, skip }) => spec.hypervisor === 'gvisor' && !skip)
const gvisor: Driver[] = sandbox ? [{ name: 'gvisor', hypervisor: 'gvisor', config: sandbox.config }] : []
/**
 * Builds work the same on all hypervisors. Emulation takes five times as long, so QEMU is only used in `npm run test:all` or without
 * gVisor.
 */
const drivers = runsAll ? [...gvisor, qemu] : [...gvisor, qemu].slice(0, 1)

beforeAll(async () => {
  await using dir = await testDir()
  const { cacheDir } = agentConfig({ dataDir: dir.path, hostName: 'test' })
  const wanting = toolImages.filter(name => !hasToolImage(cacheDir, name))
  if (wanting.length > 0)
    missing = `no images ${wanting.join(', ')}, which take minutes; make them with: mote image build builder`
  else for (const name of toolImages) await ensureToolImage({ cacheDir, imageDir: dir.path }, name, () => undefined)
  git = await gitServer()
}, 120_000)
afterAll(() => git?.[Symbol.asyncDispose]())

const skipWithout = (context: TestContext) => context.skip(missing !== '', missing)

describe.each(drivers)('builds on $name', { timeout: 600_000 }, ({ hypervisor, config }) => {
  let agent: TestAgent
  beforeAll(async () => {
    agent = await testAgent(config)
    await agent.agent.probed
  }, 120_000)
  afterAll(() => agent?.[Symbol.asyncDispose]())

  const built = (files: SourceFiles, on: TestAgent = agent, repository: string | null = null) =>
    buildOn(on, git, files, { repository, hypervisor })
  const answer = (vmId: string, image: string, on: TestAgent = agent) => answerOf(on, vmId, image, hypervisor)

  // Only in `npm run test:all`, because source-upload.test.ts and real-apps.test.ts build Node projects in each run.
  test.runIf(runsAll)(
    'a Node project runs npm ci and npm run build, and the app runs as an unprivileged user',
    async context => {
      skipWithout(context)
      const dependencies = { greeting: 'file:greeting' }
      const { image, log } = await built({
        'package.json': JSON.stringify({
          name: 'shop',
          version: '1.0.0',
          dependencies,
          scripts: { start: 'node server.js', build: 'echo made > made.txt' },
        }),
        'package-lock.json': JSON.stringify({
          name: 'shop',
          version: '1.0.0',
          lockfileVersion: 3,
          requires: true,
          packages: {
            '': { name: 'shop', version: '1.0.0', dependencies },
            greeting: { version: '1.0.0' },
            'node_modules/greeting': { resolved: 'greeting', link: true },
          },
        }),
        'greeting/package.json': JSON.stringify({ name: 'greeting', version: '1.0.0', main: 'index.js' }),
        'greeting/index.js': `module.exports = 'hello '`,
        'server.js': `const made = require('node:fs').readFileSync('made.txt', 'utf8').trim()
        require('node:http').createServer((q, r) => r.end(require('greeting') + made + ' ' + process.getuid())).listen(process.env.PORT)`,
      })
      expect(log).toContain('npm ci')
      expect(await answer('node', image)).toBe('hello made 1000')
    },
  )

  test.runIf(runsAll)('a site built with Node serves the output directory', async context => {
    skipWithout(context)
    const build = `node -e "require('fs').mkdirSync('dist'); require('fs').writeFileSync('dist/index.html', 'from ' + process.version)"`
    const { image } = await built({ 'package.json': JSON.stringify({ scripts: { build } }) })
    expect(await answer('site', image)).toMatch(/^from v\d+/)
  })

  test('a Python project installs its requirements in a venv, and the app responds', async context => {
    skipWithout(context)
    const server = `import os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from greeting import word
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write(f"{word} {sys.prefix} {os.getuid()}".encode())
HTTPServer(("0.0.0.0", int(os.environ["PORT"])), Handler).serve_forever()
`
    const { image, log } = await built({
      'app.py': server,
      'requirements.txt': './greeting-1.0-py3-none-any.whl\n',
      'greeting-1.0-py3-none-any.whl': wheel('greeting', '1.0', `word = 'hello'\n`),
    })
    expect(log).toMatch(/greeting(?:-|==)1\.0/)
    expect(await answer('python', image)).toBe('hello /app/.venv 1000')
  })

  test('a Go project is compiled, and its program responds to requests', async context => {
    skipWithout(context)
    const { image } = await built({
      'go.mod': 'module example.com/shop\n\ngo 1.24\n',
      'main.go': `package main

import (
	"fmt"
	"net/http"
	"os"
	"example.com/shop/greeting"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, greeting.Word, os.Getuid()) })
	http.ListenAndServe(":"+os.Getenv("PORT"), nil)
}
`,
      'greeting/greeting.go': 'package greeting\n\nconst Word = "hello "\n',
    })
    expect(await answer('go', image)).toBe('hello 1000')
  })

  test('a Dockerfile from scratch uses cached layers the second time', async context => {
    skipWithout(context)
    const files = {
      Dockerfile: 'FROM scratch\nCOPY index.html /www/\nCOPY other /www/\nCMD ["/www"]\n',
      'index.html': 'from a Dockerfile',
      other: '1',
    }
    const first = await built(files)
    expect(first.log).toContain('found a Dockerfile')
    const second = await built({ ...files, other: '2' })
    expect(second.image).not.toBe(first.image)
    expect(second.log).toMatch(/Using cache/)
  })

  test("a Dockerfile that starts from a registry's image is pushed to that registry, and the app runs from there", async context => {
    skipWithout(context)
    context.skip(process.getuid?.() !== 0 || !(await hasProgram('docker-registry')), 'needs root and docker-registry')
    await using registry = await registryOutside()
    await registry.push(
      join(agent.config.cacheDir, 'tool-images', toolReference('web').slice('oci:'.length)),
      'debian-busybox:1',
    )
    const registries = [{ host: registry.host, plainHttp: true }]
    await using host = await testAgent({ ...config, network: 'tap', registries })
    await host.agent.probed
    const Dockerfile = `FROM ${registry.host}/debian-busybox:1
RUN echo "made by $(id -u)" > /app/index.html
USER 1000
ENV PORT=8080
CMD ["/bin/sh", "-c", "exec httpd -f -p $PORT -h /app"]
`
    const { image, log } = await built({ Dockerfile }, host, `${registry.host}/apps/a1`)
    expect(image).toMatch(new RegExp(`^${registry.host}/apps/a1@sha256:[0-9a-f]{64}$`))
    expect(log).toContain(`FROM ${registry.host}/debian-busybox:1`)
    expect(await answer('docker', image, host)).toBe('made by 0\n')
  })
})
