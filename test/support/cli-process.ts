/**
 * Runs CLI commands one after the other in this process, which cli.ts starts. Each command starts with modules that
 * are already loaded, but has its own arguments, variables and working directory. As in a process of its own, it ends
 * when nothing is left to wait for.
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

// In the build, modules that a command loads on demand may import the program's module, which runs the command. So load
// that module once, with a command whose output nobody gets.
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
