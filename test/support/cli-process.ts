/**
 * Runs CLI commands one after the other in this process, which cli.ts starts. Each command starts with modules that
 * are already loaded, but has its own arguments, variables and working directory. As in a process of its own, it ends
 * when nothing is left to wait for.
 */

/** A command to run. */
export interface CliCommand {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
}

/** Output of a command, or its exit code, which comes last. */
export type CliReport = { readonly stream: 'out' | 'err'; readonly text: string } | { readonly code: number }

const report = (what: CliReport) => void process.send?.(what)

type Written = Parameters<typeof process.stdout.write>

/** Sends what is written to this stream to the test. */
function capture(name: 'stdout' | 'stderr', stream: 'out' | 'err'): void {
  const decoder = new TextDecoder()
  process[name].write = (...[data, encoding, done]: [Written[0], unknown?, unknown?]) => {
    report({ stream, text: typeof data === 'string' ? data : decoder.decode(data, { stream: true }) })
    const callback = typeof encoding === 'function' ? encoding : done
    if (typeof callback === 'function') setImmediate(() => callback())
    return true
  }
}
capture('stdout', 'out')
capture('stderr', 'err')

let runs = 0
let isRunning = false

process.on('message', async ({ args, env, cwd }: CliCommand) => {
  isRunning = true
  runs += 1
  process.exitCode = undefined
  for (const name of Object.keys(process.env)) if (env[name] === undefined) delete process.env[name]
  Object.assign(process.env, env)
  process.chdir(cwd)
  process.argv.splice(2, Infinity, ...args)
  // The connection to the test must not keep the command running.
  process.channel?.unref()
  await import(`../../src/cli/mote.ts?run=${runs}`)
})
process.on('beforeExit', code => {
  if (!isRunning) return
  isRunning = false
  report({ code })
  process.channel?.ref()
})
// A command may also end its process. The next command then runs in another one.
process.on('exit', code => {
  if (isRunning) report({ code })
})
process.once('disconnect', () => process.exit())
