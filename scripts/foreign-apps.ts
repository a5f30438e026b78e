/**
 * `node scripts/foreign-apps.ts <folder> <report> [<name>...]` builds the named apps of a folder (default: all) in real
 * VMs, runs them and requests a page of each. Each result is appended to the report as a line of JSON, and apps in the
 * report are skipped, so that a run can continue; SIGTERM ends it after the current app. A `test.json` in Railpack's
 * format may name the output that the program prints and the path to request.
 */
import { appendFile, readdir, readFile, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { VmObserved } from '../src/contract/agent.ts'
import { type TestAgent, testAgent, testSpec } from '../test/support/agent/agent.ts'
import { type GitServer, gitServer } from '../test/support/agent/build.ts'
import { buildOn } from '../test/support/agent/build-real.ts'
import { driverCases } from '../test/support/agent/hypervisor.ts'
import { testOf } from './railpack/expected.ts'

interface Result {
  readonly app: string
  readonly outcome: 'answers' | 'prints' | 'ends' | 'silent' | 'failed'
  readonly buildSeconds: number
  /** The app's HTTP response, the line that it printed, or the reason for the failure. */
  readonly detail: string
}

const answerMs = 240_000
const pollMs = 500
const secondsSince = (ms: number) => Math.round((performance.now() - ms) / 1000)

/**
 * Files of an app's folder that are not part of the build's source. Railpack ignores Dockerfiles, so this program
 * does, too.
 */
const left: ReadonlySet<string> = new Set(['Dockerfile', 'test.json'])

async function filesOf(dir: string): Promise<Record<string, Buffer>> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true })
  const paths = entries
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))
    .filter(path => !/\/node_modules\/|\/\.git\//.test(path) && !left.has(relative(dir, path)))
  return Object.fromEntries(
    await Promise.all(paths.map(async path => [relative(dir, path), await readFile(path)] as const)),
  )
}

/** Runs the image until its program responds to a request or prints the expected output. */
async function use(host: TestAgent, app: string, image: string, test: ReturnType<typeof testOf>) {
  const spec = testSpec({
    image,
    hypervisor: 'gvisor',
    memoryMib: 1024,
    diskMib: 1024,
    healthCheckPath: null,
    env: test.env,
  })
  const vmId = `app-${app}`.replaceAll(/[^a-z0-9-]/g, '-')
  await host.put({ vmId, generation: 1, want: 'running', spec })
  const atMs = performance.now()
  let seen: VmObserved | undefined
  try {
    while (performance.now() - atMs < answerMs) {
      seen = await host.get(vmId)
      const printed = (await host.logs(vmId)).map(({ line }) => line)
      const line = test.output === undefined ? undefined : printed.find(one => one.includes(test.output ?? ''))
      const answer = seen.endpoint ? await answerOf(seen.endpoint, test.path) : undefined
      if (answer) return { outcome: 'answers', detail: answer } as const
      if (line !== undefined) return { outcome: 'prints', detail: line } as const
      if (printed.some(one => /the (?:workload ended|program exited) with code 0$/.test(one)))
        return {
          outcome: 'ends',
          detail: printed.filter(one => !/^building the base|^the (?:workload|program) /.test(one)).slice(-1)[0] ?? '',
        } as const
      if (seen.state === 'crashed' || seen.state === 'stopped') break
      await new Promise(resolve => void setTimeout(resolve, pollMs))
    }
    const last = (await host.logs(vmId)).slice(-6).map(({ line }) => line)
    return { outcome: 'silent', detail: `${seen?.state ?? 'unknown'}: ${last.join(' / ')}` } as const
  } finally {
    await host.put({ vmId, generation: 2, want: 'absent', spec })
  }
}

async function answerOf({ host, port }: { host: string; port: number }, path: string): Promise<string | undefined> {
  try {
    const answer = await fetch(`http://${host}:${port}${path}`, {
      redirect: 'manual',
      signal: AbortSignal.timeout(20_000),
    })
    return `${answer.status} ${(await answer.text()).slice(0, 60).replaceAll(/\s+/g, ' ').trim()}`
  } catch {
    return undefined
  }
}

async function tryApp(host: TestAgent, git: GitServer, folder: string, app: string): Promise<Result> {
  const dir = join(folder, app)
  const began = performance.now()
  try {
    const built = await buildOn(host, git, await filesOf(dir), { hypervisor: 'gvisor', appId: app })
    const buildSeconds = secondsSince(began)
    return { app, buildSeconds, ...(await use(host, app, built.image, testOf(dir))) }
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    const [reason = '', ...log] = text.split('\n')
    const end = log.slice(-12).join(' / ')
    return { app, outcome: 'failed', buildSeconds: secondsSince(began), detail: `${reason} // ${end}` }
  }
}

const [folder = '', report = '', ...named] = process.argv.slice(2)
if (folder === '' || report === '') throw new Error('usage: foreign-apps.ts <folder> <report> [<name>...]')
const known = await readFile(report, 'utf8').catch(() => '')
const done = new Set(
  known.split('\n').flatMap(line => (line === '' ? [] : [String(Reflect.get(JSON.parse(line), 'app'))])),
)
const all = new Set(named.length > 0 ? named : (await readdir(folder)).sort())
const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')
if (!gvisor || gvisor.skip) throw new Error(`gVisor is not usable: ${gvisor?.name ?? 'no case'}`)
await using git = await gitServer()
await using host = await testAgent(gvisor.config)
await host.agent.probed
let isStopped = false
process.once('SIGTERM', () => (isStopped = true))
for (const app of all) {
  if (isStopped || done.has(app) || !(await stat(join(folder, app))).isDirectory()) continue
  const result = await tryApp(host, git, folder, app)
  process.stdout.write(`${app}: ${result.outcome} (${result.buildSeconds} s) ${result.detail.slice(0, 160)}\n`)
  await appendFile(report, `${JSON.stringify(result)}\n`)
}
