/**
 * Runs the CLI as a user does: with its own home directory, in its own process, with or without a terminal. In
 * `npm test`, commands without input share a process (cli-process.ts), because to start the CLI takes 0.2 s of CPU, ten
 * times as much as a command.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { join } from 'node:path'
import { runsAll } from './all-examples.ts'
import type { CliCommand, CliReport } from './cli-process.ts'
import { moteProgram } from './program.ts'

export interface Ran {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export interface RunOptions {
  readonly input?: string
  readonly cwd?: string
  /** Sends Ctrl-C as soon as the output, on stdout or stderr, matches. */
  readonly interruptAt?: RegExp
  /** Called with all standard output so far, after each part of it. */
  readonly onOutput?: (out: string) => void
  /** Prompts to wait for, each with the text to type when it appears. */
  readonly answers?: readonly (readonly [question: RegExp, answer: string])[]
}

export interface Cli {
  run(args: readonly string[], options?: RunOptions): Promise<Ran>
  /** Runs the CLI on a pseudo-terminal, provided by script(1), and types the answers. */
  onTerminal(args: readonly string[], answers: RunOptions['answers'], cwd?: string): Promise<Ran>
}

export function cli({
  home,
  env = {},
}: {
  readonly home: string
  readonly env?: Readonly<Record<string, string>>
}): Cli {
  const { MOTE_TOKEN: _, MOTE_URL: __, MOTE_PROJECT: ___, ...rest } = process.env
  const own = { HOME: home, XDG_CONFIG_HOME: join(home, '.config'), NO_COLOR: '1', TERM: 'xterm' }
  const environment = { ...rest, ...own, ...env }
  return {
    run: (args, options = {}) =>
      isShared(options)
        ? runShared({ args, env: environment, cwd: options.cwd ?? process.cwd() })
        : run(process.execPath, [moteProgram, ...args], environment, options),
    // Set the size of the pseudo-terminal, which has none by default, because prompts wrap at its width.
    onTerminal: (args, answers = [], cwd = process.cwd()) =>
      run(
        'script',
        ['-qec', ['stty cols 120 rows 40;', process.execPath, moteProgram, ...args].join(' '), '/dev/null'],
        environment,
        { answers, cwd },
      ),
  }
}

let shared: ChildProcess | undefined
let isBusy = false

/** Whether the shared process can run a command with these options now. It runs one at a time. */
const isShared = ({ input, interruptAt, onOutput, answers }: RunOptions) =>
  !runsAll && !isBusy && [input, interruptAt, onOutput, answers].every(option => option === undefined)

/** Runs a command in the shared process, and starts that process if there is none. */
async function runShared(command: CliCommand): Promise<Ran> {
  const child = (shared ??= startShared(command.env))
  isBusy = true
  const said = { out: '', err: '' }
  const { promise, resolve, reject } = Promise.withResolvers<Ran>()
  const listen = (report: CliReport) => {
    if ('code' in report) resolve({ code: report.code, ...said })
    else said[report.stream] += report.text
  }
  const fail = () => reject(new Error(`the process of mote ${command.args.join(' ')} ended without an exit code`))
  child.on('message', listen).once('disconnect', fail)
  child.send(command)
  try {
    return await promise
  } finally {
    child.off('message', listen).off('disconnect', fail)
    isBusy = false
  }
}

/** Starts the shared process, which ends with this one. */
function startShared(env: NodeJS.ProcessEnv): ChildProcess {
  const child = fork(join(import.meta.dirname, 'cli-process.ts'), {
    env,
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  child.once('disconnect', () => {
    if (shared === child) shared = undefined
  })
  child.unref()
  child.channel?.unref()
  return child
}

function run(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  { input, cwd, interruptAt, onOutput, answers }: RunOptions,
): Promise<Ran> {
  const child = spawn(program, args, { env, ...(cwd ? { cwd } : {}), stdio: 'pipe' })
  let [out, err, asked, observed] = ['', '', 0, 0]
  let interrupted = false
  const look = () => {
    if (interruptAt?.test(out + err) && !interrupted) interrupted = child.kill('SIGINT')
    const next = answers?.[asked]
    if (!next?.[0].test(out.slice(observed))) return
    asked++
    observed = out.length
    child.stdin.write(`${next[1]}\r`)
  }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
    onOutput?.(out)
    look()
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
    look()
  })
  if (answers === undefined) child.stdin.end(input ?? '')
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', code => resolve({ code, out, err }))
  })
}
