/** The first fifteen minutes of a new user: the README's first command, twice, then deploying an app by hand. */
import { fileURLToPath } from 'node:url'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { run } from '../../src/lib/exec.ts'
import { databaseVersion } from '../support/database-image.ts'
import { until } from '../support/wait.ts'
import type { Room } from './room.ts'
import type { Ran, Running, Session } from './session.ts'
import type { Step } from './step.ts'

export interface Journey {
  readonly room: Room
  readonly session: Session
  /** Path of the checkout. */
  readonly dir: string
  readonly step: Step
}

/** Captures the app's host name in the output of `mote deploy`. */
const serves = /serves at https?:\/\/([a-z0-9.-]*[a-z0-9])/
const asker = fileURLToPath(new URL('./asker.ts', import.meta.url))
const api = 'http://localhost:7070'
const gatewayPort = '7080'

/** Time limits for a slow machine. A command that takes longer is considered hung. */
const coldSeconds = 12 * 60
const warmSeconds = 5 * 60
const commandSeconds = 3 * 60

const demoOnce = ['npm', 'run', 'demo', '--', '--once']

/** Runs the README's first command. Its first step measures the time until the demo app has answered a request. */
export async function firstCommand(
  { session, dir, step }: Journey,
  name: string,
  seconds = coldSeconds,
): Promise<void> {
  const demo = session.start(demoOnce, { cwd: dir })
  await step(`${name}: answer`, seconds, signal => demo.printed(/Hello from/, signal))
  await step(`${name}: end`, warmSeconds, async signal => {
    const { code } = await demo.ended(signal)
    if (code !== 0) throw new Error(`the demo ended with ${code}`)
  })
}

/**
 * Runs the first command as a user without root, for whom it prints a command that installs the missing packages; then
 * runs that command as root.
 */
export async function installAsPrinted({ session, dir, step }: Journey): Promise<void> {
  const printed = await step('demo names packages', coldSeconds, async signal => {
    const { code, text } = await session.run(demoOnce, { cwd: dir, signal })
    const line = /^\s*(?:sudo sh|su) -c '(.*apt-get install.*)'$/m.exec(text)?.[1]
    if (code === 0 || line === undefined)
      throw new Error(`no command to install packages is printed (exit code ${code})`)
    expectPlainWords(text)
    return line
  })
  await step('packages as printed', coldSeconds, async signal => {
    const { code } = await session.asRoot.run(['sh', '-c', printed], { signal })
    if (code !== 0) throw new Error(`the printed command ended with ${code}`)
  })
}

/** Runs the README's second command, `npm test`, without the tests of this folder: nested test systems add nothing. */
export async function wholeSuite({ session, dir, step }: Journey, seconds: number): Promise<Outcome> {
  const projects = ['all', 'dashboard', 'installed', 'lives'].flatMap(name => ['--project', name])
  return step<Outcome>('npm test', seconds, async signal => {
    const { code, text } = await session.run(['npm', 'test', '--', ...projects], { cwd: dir, signal })
    if (code !== 0) throw new Error(`the tests ended with ${code}: ${/Tests .*/.exec(text)?.[0] ?? 'no summary'}`)
    return 'works'
  })
}

/** A message about a failure must be within the last 25 lines of output, where a user looks for it. */
const lastLines = 25

/** `refuses`: the command failed with a message that names the missing requirement. */
export type Outcome = 'works' | 'refuses'

/**
 * Runs the README's first command on a system with an unusual property.
 * @param says pattern that the last lines of output must match if the command fails; null if it must not fail
 */
export async function oneCommand({ session, dir, step }: Journey, says: RegExp | null): Promise<Outcome> {
  return step('first command', coldSeconds, async signal => {
    const { code, text } = await session.run(demoOnce, { cwd: dir, signal })
    if (code === 0 && text.includes('Hello from')) return 'works'
    expectPlainWords(text)
    if (says === null) throw new Error(`the demo ended with ${code}`)
    const end = text.trimEnd().split('\n').slice(-lastLines).join('\n')
    if (!says.test(end)) throw new Error(`the demo ended with ${code} without a message that matches ${says.source}`)
    return 'refuses'
  })
}

/** Throws if the output contains a stack trace with paths into our sources. */
export function expectPlainWords(text: string): void {
  const trace = /^\s+at .*(?:\.m?[jt]s:\d+|\(node:)/m.exec(text)?.[0]
  if (trace !== undefined) throw new Error(`a stack trace is shown: ${trace.trim()}`)
}

/**
 * Deploys an app with the CLI while `npm run demo` runs.
 * @param hasDatabases whether the database image is available
 * @param isRoot whether the agent runs as root, which databases require
 */
export async function byHand(journey: Journey, hasDatabases: boolean, isRoot: boolean): Promise<void> {
  const { session, dir, step, room } = journey
  const demo = session.start(['npm', 'run', 'demo'], { cwd: dir })
  const [, email = '', password = ''] = await step('demo that stays', warmSeconds, signal =>
    demo.printed(/Login\s+(\S+) \/ (\S+)/, signal),
  )
  await step('login', commandSeconds, signal => logIn(journey, { email, password }, signal))
  const mote = moteOf(journey)
  await mote('apps create', ['apps', 'create', 'web', '--port', '8080', '--health', '/health'])
  const deploy = ['deploy', '--app', 'web', '--image', 'oci:hello'] as const
  await answers(journey, await mote('deploy', deploy, serves))
  await mote('logs', ['logs', '--app', 'web'], /listening on port 8080/)
  await mote('exec', ['exec', '--app', 'web', '--', 'uname', '-s'], /^Linux$/m)
  await answers(journey, await mote('redeploy', deploy, serves))
  const { text } = await mote('deployments list', ['deployments', 'list', '--app', 'web', '--json'])
  await mote('stop', ['deployments', 'stop', newestOf(text), '--app', 'web'])
  await mote('apps delete', ['apps', 'delete', 'web', '--yes'])
  if (hasDatabases && !isRoot) {
    const { code, text } = await session.run(['bin/mote', 'db', 'create', 'main'], {
      cwd: dir,
      signal: AbortSignal.timeout(60_000),
    })
    if (code === 0 || !/agent that runs as root/.test(text))
      throw new Error('db create does not say that it needs root')
  } else if (hasDatabases) {
    const create = ['db', 'create', 'main', '--version', String(databaseVersion), '--json'] as const
    await mote('db create', create, /"status": ?"running"/, warmSeconds).catch(async (cause: unknown) => {
      // Run `mote notifications`, so that the log shows why the database failed. It is not a step of its own, because
      // the report names the last step as the failed one.
      await session.run(['bin/mote', 'notifications'], { cwd: dir, signal: AbortSignal.timeout(30_000) })
      throw cause
    })
    await mote('db delete', ['db', 'delete', 'main', '--yes'])
  }
  await stopDemo(journey, demo, room)
}

async function stopDemo({ step }: Journey, demo: Running, room: Room): Promise<void> {
  await step('Ctrl-C', commandSeconds, async signal => {
    demo.interrupt()
    expectPlainWords((await demo.ended(signal)).text)
    // Wait until all processes have exited, because npm closes its output before its process exits.
    const isEmpty = async () => (await room.processes()).length === 0
    await until(isEmpty, { what: 'its programs to end' }).catch(async (cause: unknown) => {
      throw new Error(`these programs still run: ${(await room.processes()).join(', ')}`, { cause })
    })
  })
}

const moteOf =
  ({ session, dir, step }: Journey) =>
  (name: string, args: readonly string[], expected: RegExp = /(?:)/, seconds = commandSeconds) =>
    step(`mote ${name}`, seconds, async signal => {
      const ran = await session.run(['bin/mote', ...args], { cwd: dir, signal })
      if (ran.code !== 0) throw new Error(`mote ${args.join(' ')} ended with ${ran.code}`)
      if (!expected.test(ran.text))
        throw new Error(`mote ${args.join(' ')} printed nothing that matches ${expected.source}`)
      return ran
    })

/** Runs `mote login` under script(1), which provides a terminal for the password prompt. */
async function logIn(
  { session, dir }: Journey,
  { email, password }: { readonly email: string; readonly password: string },
  signal: AbortSignal,
): Promise<void> {
  const line = ['stty cols 120;', 'bin/mote', 'login', '--url', api, '--email', email].join(' ')
  const options = { cwd: dir, signal, types: [/Password/, `${password}\r`] } as const
  const { code, text } = await session.run(['script', '-qec', line, '/dev/null'], options)
  if (code !== 0 || !text.includes(`Signed in to ${api}`)) throw new Error(`mote login ended with ${code}`)
}

const Listed = Type.Array(Type.Object({ job_id: Type.String() }))

function newestOf(text: string): string {
  const listed: unknown = JSON.parse(text.slice(text.indexOf('[')))
  const [newest] = Value.Check(Listed, listed) ? listed : []
  if (newest === undefined) throw new Error('mote deployments list shows none')
  return newest.job_id
}

/**
 * Sends a request to the app that `mote deploy` printed. The host's Node sends it from the network of the test
 * system, because a fresh root file system has no HTTP client.
 */
async function answers({ room, step }: Journey, { text }: Ran): Promise<void> {
  await step('answer', commandSeconds, async signal => {
    const [program, ...args] = room.beside([process.execPath, asker, gatewayPort, serves.exec(text)?.[1] ?? ''])
    await run(program, args, { signal })
  })
}
