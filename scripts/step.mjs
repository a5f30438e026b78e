// Runs a program as one named step: prints its name at once and the elapsed time every 5 s, and keeps its output for
// errors. Plain JavaScript: see bootstrap.mjs.
import { spawn } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'

const tickMs = 5_000
const keptChars = 20_000
/** An installation that takes longer than this checks whether the npm registry answers. */
const patienceMs = 20_000

/** An error that the user can fix; printed without a stack trace. */
export class Failure extends Error {}

/**
 * Runs `work` and prints the step with its duration.
 * @param label description of the step, without a full stop
 * @param work the step; it may return text to append to the printed line
 */
export async function step(label, work) {
  const startedMs = Date.now()
  const seconds = () => (Date.now() - startedMs) / 1000
  process.stderr.write(`${label} ... `)
  const ticker = setInterval(() => process.stderr.write(`${Math.round(seconds())} s ... `), tickMs)
  try {
    const added = await work()
    process.stderr.write(`${added ? `${added}, ` : ''}${seconds().toFixed(1)} s\n`)
  } catch (error) {
    process.stderr.write('failed\n')
    throw error
  } finally {
    clearInterval(ticker)
  }
}

/**
 * Runs a program without input.
 * @returns {Promise<{ status: number | null, output: string }>} the exit status and the end of the output; status
 * null: the program was not found or was killed
 */
export function program(command, args, options = {}) {
  return new Promise(resolve => {
    let output = ''
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options })
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', text => (output = (output + text).slice(-keptChars)))
    child.on('error', error => resolve({ status: null, output: String(error.message) }))
    child.on('close', status => resolve({ status, output }))
  })
}

/**
 * Installs packages in a folder of the project, without the environment variables that `npm run` sets for this
 * process.
 * @param node the Node that runs npm. npm skips optional packages that its own Node is too old for, such as the native
 * parts of the bundlers under Debian 12's Node 18, even if another Node will run them.
 * @param wanted packages to install instead of those of the folder
 * @param askAfterMs when to check whether the registry answers, to explain a long wait
 * @throws Failure at once for an untrusted certificate; otherwise once npm has given up
 */
export async function npmInstall(cwd, node = process.execPath, wanted = [], askAfterMs = patienceMs) {
  const cli = npmCli()
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')))
  // PATH makes the scripts of packages use this Node, too. NODE_PATH is for Debian's npm, which finds its modules only
  // with it or with Debian's Node.
  env.PATH = [dirname(node), env.PATH].join(delimiter)
  if (cli?.startsWith(debianModules)) env.NODE_PATH = debianModules
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error', ...wanted]
  const isOther = cli !== undefined && node !== process.execPath
  const npm = (args, options) =>
    program(isOther ? node : 'npm', isOther ? [cli, ...args] : args, { cwd, env, ...options })
  const hopeless = new AbortController()
  let said = ''
  let isOver = false
  // npm retries a request that cannot succeed for 15 minutes without any output.
  const asking = setTimeout(async () => {
    const { status, output } = await npm(['ping', '--fetch-retries=0', '--fetch-timeout=10000', '--loglevel=error'])
    if (status === 0 || isOver) return
    said = output
    if (isUntrusted(output)) hopeless.abort()
    else process.stderr.write('the npm registry does not answer, npm tries again ... ')
  }, askAfterMs)
  const { status, output } = await npm(args, { signal: hopeless.signal })
  isOver = true
  clearTimeout(asking)
  const isHopeless = hopeless.signal.aborted
  if (status !== 0)
    throw new Failure(`npm could not install the packages in ${cwd}. ${reasonOf(isHopeless ? said : output)}`)
}

const isUntrusted = output =>
  /SELF_SIGNED_CERT|UNABLE_TO_GET_ISSUER|unable to get local issuer|certificate verify failed/i.test(output)

const debianModules = '/usr/share/nodejs'

/**
 * Returns the path of the JavaScript file that the command `npm` runs; undefined if npm is not installed or is not a
 * JavaScript file.
 */
function npmCli() {
  const onPath = (process.env.PATH ?? '').split(delimiter).map(dir => join(dir, 'npm'))
  const found = onPath.find(path => existsSync(path))
  const script = found === undefined ? '' : realpathSync(found)
  return script.endsWith('npm-cli.js') ? script : undefined
}

/** Returns what the user can do about a failed installation, derived from npm's output. */
export function reasonOf(output) {
  if (/ENOSPC|no space left on device/i.test(output)) return 'The disk is full: free at least 1.5 GB and try again.'
  if (isUntrusted(output))
    return 'A certificate is not trusted: if a proxy inspects TLS here, set NODE_EXTRA_CA_CERTS to the file with its certificate authority and try again.'
  if (
    /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|Could not resolve|Temporary failure|Unable to connect/i.test(
      output,
    )
  )
    return 'The package servers cannot be reached: check the network, or set HTTPS_PROXY if there is a proxy, and try again.'
  const lines = output
    .trim()
    .split('\n')
    .filter(line => line.trim() !== '')
  return `Its output:\n${lines.slice(-8).join('\n')}`
}
