/** Follows tutorials as a reader does: runs their commands in a shell, with the built program. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { freePort } from '../support/free-port.ts'
import { builtProgram } from '../support/program.ts'
import { startReaper } from '../support/reaper.ts'
import { until } from '../support/wait.ts'
import { missingIn, type Step, stepsOf } from './page.ts'

const root = join(import.meta.dirname, '..', '..')
/** Matches the only command of tutorials that prompts for input: `mote login` for a password. */
const asksPassword = /^mote login /m
const firstTutorial = 'docs/tutorials/first-app.md'
const startsCloud = 'npm run demo'
/** Time limit for the commands of one code block, such as a build and two deployments, while other tests run. */
const mostSeconds = 600

export interface Reader extends AsyncDisposable {
  /** Follows a whole tutorial. @throws Error with the line of the page, the output, and what was expected */
  follow(page: string): Promise<void>
  /** Starts the cloud and signs in, as in the first tutorial. @throws Error like `follow` */
  begin(): Promise<void>
  /** Puts an image into the cloud's image directory, so that it need not be built first. */
  addImage(layout: string): Promise<void>
}

export interface ReaderOptions {
  /** Environment variables for a hypervisor that the reader has installed. By default guests run under emulation. */
  readonly installed?: Readonly<Record<string, string>>
  /** Replaces names and addresses in commands and output, because other tests may use those of the tutorial. */
  readonly rename?: (text: string) => string
}

export async function newReader({ rename, installed = {} }: ReaderOptions = {}): Promise<Reader> {
  await using undo = new AsyncDisposableStack()
  const reaper = startReaper()
  undo.defer(() => reaper.finish())
  const home = await mkdtemp(join(tmpdir(), 'mote-tutorials-'))
  undo.defer(() => rm(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }))
  const program = await builtProgram()
  const [port, gatewayPort, sshPort] = [await freePort(), await freePort(), await freePort()]
  const bin = join(home, 'bin')
  await mkdir(bin)
  await writeFile(join(bin, 'mote'), `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`)
  await chmod(join(bin, 'mote'), 0o755)

  /** Adapts text of the tutorial to this test, which uses other ports than readers do. */
  const here = rename ?? ((text: string) => text.replaceAll(':7070', `:${port}`).replaceAll(':7080', `:${gatewayPort}`))
  const { MOTE_TOKEN: _, MOTE_URL: __, MOTE_PROJECT: ___, ...inherited } = process.env
  const env = {
    ...inherited,
    ...installed,
    PATH: `${bin}:${inherited['PATH'] ?? ''}`,
    XDG_CONFIG_HOME: join(home, '.config'),
    MOTE_SSH_PORT: String(sshPort),
    NO_COLOR: '1',
    TERM: 'xterm',
  }
  /** Data directory of the cloud. */
  const data = join(home, '.mote')
  let folder = home
  let password = ''
  let cloud: ChildProcess | undefined

  async function startCloud(): Promise<string> {
    const args = ['demo', '--data', data, '--port', String(port), '--gateway-port', String(gatewayPort)]
    const child = spawn(process.execPath, [program, ...args], { env, cwd: home })
    reaper.killAtEnd(child.pid ?? 0)
    const output = outputOf(child)
    cloud = child
    await until(() => output.text.includes('Ctrl-C stops it') || child.exitCode !== null, {
      what: "the end of the demo's start",
      timeoutMs: mostSeconds * 1000,
    })
    password = /Login .* \/ (\S+)/.exec(output.text)?.[1] ?? ''
    return output.text
  }

  /** Runs commands in the folder in which the previous ones ended, and stops at the first command that fails. */
  async function runCommands(text: string): Promise<string> {
    const script = here(text).replaceAll('~/', `${home}/`)
    const whole = `set -euo pipefail\n${script}\npwd > '${home}/.folder'\n`
    await writeFile(join(home, '.script'), whole)
    const isAsked = asksPassword.test(text)
    const command = isAsked ? ['script', '-qec', `bash ${home}/.script`, '/dev/null'] : ['bash', join(home, '.script')]
    const [program = '', ...args] = command
    const child = spawn(program, args, { env, cwd: folder })
    reaper.killAtEnd(child.pid ?? 0)
    const output = outputOf(child)
    const limit = setTimeout(() => child.kill('SIGKILL'), mostSeconds * 1000)
    if (isAsked) {
      await until(() => /password/i.test(output.text.replaceAll(/\s/g, '')) || child.exitCode !== null, {
        what: 'the question for the password',
        timeoutMs: 30_000,
      })
      child.stdin.write(`${password}\r`)
    } else child.stdin.end()
    const [code] = await once(child, 'close')
    clearTimeout(limit)
    reaper.forget(child.pid ?? 0)
    if (code !== 0) throw new Error(`exit code ${code}:\n${output.text}`)
    folder = (await readFile(join(home, '.folder'), 'utf8')).trim()
    password = /^Password +(\S+)/m.exec(output.text)?.[1] ?? password
    return output.text
  }

  async function perform(step: Step): Promise<void> {
    if (step.kind === 'file') return writeFile(join(folder, step.name), here(step.text))
    const output = step.text === startsCloud ? await startCloud() : await runCommands(step.text)
    const missing = missingIn(output, step.output.map(here))
    if (missing.length > 0) throw new Error(`it does not print ${JSON.stringify(missing)}, but:\n${output}`)
  }

  async function follow(page: string, isLast = (_step: Step) => false): Promise<void> {
    folder = home
    const steps = stepsOf(await readFile(join(root, page), 'utf8'))
    const last = steps.findIndex(isLast)
    for (const step of last === -1 ? steps : steps.slice(0, last + 1))
      await perform(step).catch((cause: unknown) => {
        const reason = cause instanceof Error ? cause.message : String(cause)
        throw new Error(`${page}:${step.line}: ${reason}`, { cause })
      })
  }

  const all = undo.move()
  return {
    follow: page => follow(page),
    begin: () => follow(firstTutorial, ({ text }) => asksPassword.test(text)),
    addImage: layout => cp(layout, join(data, 'images', basename(layout)), { recursive: true }),
    async [Symbol.asyncDispose]() {
      if (cloud) await ended(cloud)
      await all[Symbol.asyncDispose]()
    },
  }
}

function outputOf(child: ChildProcess): { text: string } {
  const output = { text: '' }
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output.text += text
    })
  return output
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGINT')
  await exited
}
