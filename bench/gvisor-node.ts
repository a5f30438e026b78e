/** Compares Node apps on gVisor with emulated QEMU and bare processes: requests through the gateway, and npm builds. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pino } from 'pino'
import { Pool } from 'undici'
import { createMemoryBus } from '../src/bus/memory.ts'
import { gatewaySubjects, type Route } from '../src/contract/gateway.ts'
import { gatewayDefaults } from '../src/gateway/config.ts'
import { startGateway } from '../src/gateway/main.ts'
import { run } from '../src/lib/exec.ts'
import { type TestAgent, testAgent, testSpec } from '../test/support/agent/agent.ts'
import { gitServer } from '../test/support/agent/build.ts'
import { buildOn } from '../test/support/agent/build-real.ts'
import { type DriverCase, driverCases } from '../test/support/agent/hypervisor.ts'
import { freePort } from '../test/support/free-port.ts'
import { until } from '../test/support/wait.ts'
import type { Benchmark, Report } from './benchmark.ts'
import { missingForVms } from './deploy-to-answer.ts'
import { inTurns, ratioOfRounds, scaled } from './turns.ts'

const requestRounds = 5
const turnMs = 2000
const inFlight = 16
const buildRounds = 3
const registry = 'https://registry.npmjs.org/vite/latest'

const sources = {
  'package.json': JSON.stringify({
    name: 'shop',
    type: 'module',
    scripts: { build: 'vite build', start: 'node server.js' },
    dependencies: { react: '^19', 'react-dom': '^19', vite: '^7' },
  }),
  'index.html': '<!doctype html><div id="root"></div><script type="module" src="/main.js"></script>',
  'main.js': `import { createElement } from 'react'
import { createRoot } from 'react-dom/client'

createRoot(document.getElementById('root')).render(createElement('h1', null, 'shop'))
`,
  'server.js': `import { createServer } from 'node:http'

createServer((request, response) => response.end('hello, world')).listen(process.env.PORT, '::')
`,
}

const gvisorCase = async () => (await driverCases()).find(({ spec }) => spec.hypervisor === 'gvisor')

/** Environment for processes on the host that use the same npm and Node as the guest. */
const bareEnv = { PATH: `${dirname(process.execPath)}:${process.env['PATH']}` }
const npm = (cwd: string, args: readonly string[]) => run('npm', args, { cwd, env: bareEnv, network: true })

/** Returns the seconds that `npm ci` and `npm run build` take on the host with an empty cache. */
async function bareBuild(from: string): Promise<number> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
  try {
    await cp(from, join(dir, 'app'), { recursive: true })
    const began = performance.now()
    await npm(join(dir, 'app'), ['ci', '--no-audit', '--no-fund', '--cache', join(dir, 'cache')])
    await npm(join(dir, 'app'), ['run', 'build'])
    return (performance.now() - began) / 1000
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** Returns the seconds that `npm ci` and `npm run build` took in a VM, from the log of a build. */
function stepsOf(log: string): number {
  const steps = [...log.matchAll(/^npm (?:ci|run build): took (\d+(?:\.\d+)?) s$/gm)]
  if (steps.length !== 2) throw new Error(`the build has other steps:\n${log}`)
  return steps.reduce((sum, [, seconds]) => sum + Number(seconds), 0)
}

export const gvisorNode: Benchmark = {
  name: 'gvisor-node',
  goal: 'npm ci and the build of a Vite app on gVisor take at most 1.5 times the bare time; the rate of a Node server in gVisor behind the gateway is shown beside those of a bare process and of emulated QEMU',
  how: 'For an app with Vite and React, npm ci and npm run build with an empty cache run alternately in a build on gVisor (two vCPUs; the times of these two steps are in its log) and as bare processes. Then a Node server that returns 12 bytes is measured behind one gateway, alternately on gVisor, on emulated QEMU and as a bare process, each with 16 open connections for 2 s.',
  reading:
    'The gateway and the client share the two cores with the servers, so the rates are lower than those of the servers alone. A build also installs Node in its VM (not counted: the bare process has it already).',
  onlyByName: true,
  unable: async () => {
    const one = await gvisorCase()
    if (one === undefined || one.skip) return one?.name ?? 'no gVisor'
    const reached = await fetch(registry, { signal: AbortSignal.timeout(10_000) }).then(
      ({ ok }) => ok,
      () => false,
    )
    return (await missingForVms()) ?? (reached ? undefined : 'the npm registry cannot be reached')
  },
  async run(report) {
    const one = await gvisorCase()
    if (!one) return
    await using cleanup = new AsyncDisposableStack()
    const dir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
    cleanup.defer(() => rm(dir, { recursive: true, force: true }))
    const host = cleanup.use(await testAgent(one.config))
    const image = await builds(report, { host, one, dir })
    await requests(report, { host, one, dir, image })
  },
}

interface Place {
  readonly host: TestAgent
  readonly one: DriverCase
  readonly dir: string
}

/** Compares builds on gVisor, on emulated QEMU and on the host. @returns the image of the last build on gVisor */
async function builds(report: Report, { host, dir }: Place): Promise<string> {
  const app = join(dir, 'app')
  await mkdir(app)
  for (const [name, text] of Object.entries(sources)) await writeFile(join(app, name), text)
  await npm(app, ['install', '--package-lock-only', '--no-audit', '--no-fund'])
  const files = { ...sources, 'package-lock.json': await readFile(join(app, 'package-lock.json'), 'utf8') }
  await using git = await gitServer()
  let image = ''
  let count = 0
  const onGvisor = async () => {
    const change = { hypervisor: 'gvisor', appId: `a${++count}`, vcpus: 2, memoryMib: 1536 } as const
    const made = await buildOn(host, git, files, change)
    image = made.image
    return stepsOf(made.log)
  }
  const times = await inTurns(buildRounds, { gvisor: onGvisor, bare: () => bareBuild(app) })
  const inMs = (seconds: readonly number[]) => seconds.map(one => one * 1000)
  report.samples('gVisor, npm ci and build', 'ms', inMs(times.gvisor))
  report.samples('bare, npm ci and build', 'ms', inMs(times.bare))
  report.verdict('time of npm ci and build in gVisor / as bare processes', ratioOfRounds(times.gvisor, times.bare), 1.5)
  return image
}

async function requests(report: Report, { host, one, dir, image }: Place & { readonly image: string }): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const { imageDir } = host.config
  const emulated = cleanup.use(await testAgent({ hypervisor: 'qemu', network: 'tap', imageDir }))
  const started = async (agent: TestAgent, spec: DriverCase['spec']) => {
    await agent.put({
      vmId: 'vm-node',
      generation: 1,
      want: 'running',
      spec: testSpec({ ...spec, image, memoryMib: 256, diskMib: 1024, healthCheckPath: '/' }),
    })
    const vm = await until(async () => ((now): typeof now | false => now.healthy && now)(await agent.get('vm-node')), {
      what: 'the server in the guest',
      timeoutMs: 240_000,
    })
    return vm.endpoint ?? { host: '', port: 0 }
  }
  const port = await freePort()
  const bare = spawn(process.execPath, [join(dir, 'app', 'server.js')], { env: { ...bareEnv, PORT: String(port) } })
  cleanup.defer(async () => {
    bare.kill('SIGKILL')
    await once(bare, 'exit')
  })
  const backends = {
    gvisor: await started(host, one.spec),
    qemu: await started(emulated, {}),
    bare: { host: '127.0.0.1', port },
  }
  const gatewayPort = await startOwnGateway(cleanup, backends)
  const turns = Object.fromEntries(
    Object.keys(backends).map(name => [name, () => perSecond(gatewayPort, `${name}.localhost`)]),
  )
  const rates = await inTurns(requestRounds, turns)
  for (const [name, values] of Object.entries(rates))
    report.samples(`${name}, requests through the gateway`, '/s', values)
  const ratio = (over: string, under: string) => ratioOfRounds(rates[over] ?? [], rates[under] ?? []).toFixed(2)
  report.note(
    `rate of requests in gVisor / as a bare process: ${ratio('gvisor', 'bare')}; in gVisor / in emulated QEMU: ${ratio('gvisor', 'qemu')}`,
  )
}

async function startOwnGateway(
  cleanup: AsyncDisposableStack,
  backends: Readonly<Record<string, { readonly host: string; readonly port: number }>>,
): Promise<number> {
  const bus = createMemoryBus()
  const routes = Object.entries(backends).map(
    ([name, backend]): Route => ({
      hostname: `${name}.localhost`,
      projectId: 'p',
      appId: name,
      state: 'live',
      drainSeconds: 1,
      version: 1,
      backends: [{ vmId: name, ...backend }],
    }),
  )
  await bus.serve(gatewaySubjects.routes, () => ({ version: 2, routes }))
  const port = await freePort()
  const config = { ...gatewayDefaults, host: '127.0.0.1', port }
  const gateway = await startGateway(config, { bus, log: pino({ level: 'silent' }) })
  cleanup.defer(() => gateway.stop(0))
  return port
}

async function perSecond(port: number, host: string): Promise<number> {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: inFlight })
  const began = performance.now()
  const endMs = began + turnMs * Math.min(1, scaled(100) / 100)
  let count = 0
  const worker = async () => {
    while (performance.now() < endMs) {
      const answer = await pool.request({ path: '/', method: 'GET', headers: { host } })
      await answer.body.dump()
      if (answer.statusCode !== 200) throw new Error(`${host} answered ${answer.statusCode}`)
      count += 1
    }
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
  const rate = (count * 1000) / (performance.now() - began)
  await pool.close()
  return rate
}
