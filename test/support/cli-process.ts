/**
 * Runs CLI commands one after the other in this process, which cli.ts starts. The modules stay loaded from one command
 * to the next; arguments, environment variables and working directory are those of the command. A command has ended
 * when the event loop is empty, as if it ran in a separate process.
 */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { moteProgram } from './program.ts'

/** A command to run. */
export interface CliCommand {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
}

/** Output of a command, or its exit code, which comes last. */
export type CliReport = { readonly stream: 'out' | 'err'; readonly text: string } | { readonly code: number }

const report = (what: CliReport) => void (isRunning && process.send?.(what))

type Written = Parameters<typeof process.stdout.write>

/** Sends what is written to this stream to the test. */
function capture(name: 'stdout' | 'stderr', stream: 'out' | 'err'): void {
  const decoder = new TextDecoder()
  process[name].write = (...[data, encoding, done]: [Written[0], unknown?, unknown?]) => {
    report({ stream, text: typeof data === 'string' ? data : decoder.decode(data, { stream: true }) })
    const callback = typeof encoding === 'function' ? encoding : done
    if (typeof callback === 'function') process.nextTick(callback)
    return true
  }
}
capture('stdout', 'out')
capture('stderr', 'err')

/**
 * The module that runs a command: of the build, as for users, or of the sources if they are newer. The first module of
 * the program only prints the version or imports this one.
 */
const program = moteProgram.endsWith('.js') ? importedBy(moteProgram) : '../../src/cli/mote.ts'

/** Returns the module that this built module imports when it runs. */
function importedBy(file: string): string {
  const [, module] = /await import\("([^"]+)"\)/.exec(readFileSync(file, 'utf8')) ?? []
  if (module === undefined) throw new Error(`${file} does not import the module that runs commands`)
  return join(dirname(file), module)
}

let runs = 0
let isRunning = false

// In the build, a module that a command loads on demand may import the program's module, which would run the command a
// second time. So import that module once before the first command, with `--version`, and discard the output.
const isLoaded = loaded()
async function loaded(): Promise<void> {
  process.argv.splice(2, Infinity, '--version')
  await import(program)
  await setImmediate()
}

process.on('message', async ({ args, env, cwd }: CliCommand) => {
  await isLoaded
  isRunning = true
  runs += 1
  process.exitCode = undefined
  for (const name of Object.keys(process.env)) if (env[name] === undefined) delete process.env[name]
  Object.assign(process.env, env)
  process.chdir(cwd)
  process.argv.splice(2, Infinity, ...args)
  // The connection to the test must not keep the command running.
  process.channel?.unref()
  await import(`${program}?run=${runs}`)
})
process.on('beforeExit', code => {
  if (!isRunning) return
  report({ code })
  isRunning = false
  process.channel?.ref()
})
// A command may also end its process. The next command then runs in another one.
process.on('exit', code => {
  if (isRunning) report({ code })
})
process.once('disconnect', () => process.exit())
