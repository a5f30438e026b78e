/** Builds each kind of repository in a VM and runs the result, with the images of `mote image build builder`. */
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, type TestContext } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { type BuildObserved, type BuildPut, subjects, type VmObserved } from '../../contract/agent.ts'
import { hasProgram } from '../../lib/programs.ts'
import { agentConfig } from '../base/config.ts'
import { type TestAgent, testAgent, testDir, testSpec } from '../../../test/support/agent/agent.ts'
import { type GitServer, gitServer } from '../../../test/support/agent/build.ts'
import { registryOutside } from '../../../test/support/agent/build-registry.ts'
import { wheel } from '../../../test/support/agent/build-wheel.ts'
import { ensureToolImage, hasToolImage, toolImages, toolReference } from './tool-images.ts'

let missing = ''
let git: GitServer
let agent: TestAgent
let builds = 0

beforeAll(async () => {
  await using dir = await testDir()
  const { cacheDir } = agentConfig({ dataDir: dir.path, hostName: 'test' })
  const wanting = toolImages.filter(name => !hasToolImage(cacheDir, name))
  if (wanting.length > 0)
    missing = `no images ${wanting.join(', ')}, which take minutes; make them with: mote image build builder`
  else for (const name of toolImages) await ensureToolImage({ cacheDir, imageDir: dir.path }, name, () => undefined)
  git = await gitServer()
  agent = await testAgent({ hypervisor: 'qemu', network: process.getuid?.() === 0 ? 'tap' : 'user' })
  await agent.agent.probed
}, 120_000)
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]()
  await git?.[Symbol.asyncDispose]()
})

const skipWithout = (context: TestContext) => context.skip(missing !== '', missing)

const built = async (
  files: Readonly<Record<string, string | Buffer>>,
  on: TestAgent = agent,
  repository: string | null = null,
) => {
  await git.push(files)
  const put: BuildPut = {
    buildId: `compiled-${++builds}`,
    generation: 1,
    want: 'present',
    spec: {
      projectId: 'p1',
      appId: 'a1',
      deploymentId: 'd1',
      hypervisor: 'qemu',
      vcpus: 1,
      memoryMib: 1024,
      source: { url: git.url, branch: '', commit: '', allowPrivate: true },
      diskMib: 4096,
      timeLimitMs: 540_000,
      repository,
    },
  }
  const subject = subjects.hostIn(on.agent.hostId, 'build.put')
  const ask = async () => (await on.bus.request(subject, put, { timeoutMs: 10_000 })) as BuildObserved
  const observed = await until(
    async () => ((one: BuildObserved) => /succeeded|failed/.test(one.state) && one)(await ask()),
    { what: 'the build has ended', timeoutMs: 560_000, everyMs: 200 },
  )
  const log = (await on.logs(put.buildId)).map(({ line }) => line)
  if (observed.state !== 'succeeded') throw new Error(`${observed.error}\n${log.join('\n')}`)
  return { image: observed.image ?? '', log: log.join('\n') }
}
const answerOf = async (vmId: string, image: string, on: TestAgent = agent) => {
  const spec = testSpec({ image, memoryMib: 256, healthCheckPath: '/' })
  await on.put({ vmId, generation: 1, want: 'running', spec })
  // An interpreter starts slowly under emulation.
  const observed = await until(async () => ((vm: VmObserved) => vm.healthy && vm)(await on.get(vmId)), {
    what: `${vmId} is healthy`,
    timeoutMs: 240_000,
    everyMs: 100,
  }).catch(async (error: unknown) => {
    throw new Error((await on.logs(vmId)).map(({ line }) => line).join('\n'), { cause: error })
  })
  const text = await (await fetch(`http://${observed.endpoint?.host}:${observed.endpoint?.port}/`)).text()
  await on.put({ vmId, generation: 2, want: 'absent', spec })
  return text
}

describe('a build of', { timeout: 600_000 }, () => {
  test('a Node project: npm ci, npm run build, and it runs as its user', async context => {
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
    expect(await answerOf('node', image)).toBe('hello made 1000')
  })

  test('a site built with Node', async context => {
    skipWithout(context)
    const build = `node -e "require('fs').mkdirSync('dist'); require('fs').writeFileSync('dist/index.html', 'from ' + process.version)"`
    const { image } = await built({ 'package.json': JSON.stringify({ scripts: { build } }) })
    expect(await answerOf('site', image)).toMatch(/^from v\d+/)
  })

  test('a Python project: its requirements in a venv', async context => {
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
    expect(await answerOf('python', image)).toBe('hello /app/.venv 1000')
  })

  test('a Go project: one static program', async context => {
    skipWithout(context)
    const { image } = await built({
      'go.mod': 'module example.com/shop\n\ngo 1.19\n',
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
    expect(await answerOf('go', image)).toBe('hello 1000')
  })

  test('a Dockerfile from scratch, layer by layer, and from the cache the second time', async context => {
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

  test('a Dockerfile from an image of a registry, pushed to that registry by digest, and run from there', async context => {
    skipWithout(context)
    context.skip(process.getuid?.() !== 0 || !(await hasProgram('docker-registry')), 'needs root and docker-registry')
    await using registry = await registryOutside()
    await registry.push(
      join(agent.config.cacheDir, 'tool-images', toolReference('web').slice('oci:'.length)),
      'debian-busybox:1',
    )
    const registries = [{ host: registry.host, plainHttp: true }]
    await using host = await testAgent({ hypervisor: 'qemu', network: 'tap', registries })
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
    expect(await answerOf('docker', image, host)).toBe('made by 0\n')
  })
})
