// Runs a program as one named step: says at once what has begun, shows that it goes on, keeps its output for when it fails.
// Plain JavaScript: see bootstrap.mjs.
import { spawn } from 'node:child_process'

const tickMs = 5_000
const keptChars = 20_000

/** Something that a person can act on; printed without a stack trace. */
export class Failure extends Error {}

/**
 * @param label what is being done, without a full stop
 * @param work answers what to add to the line, or nothing
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
 * @returns {Promise<{ status: number | null, output: string }>} the last of what it printed; status null: it was not found
 *   or was killed
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

/** npm in a folder of the project, without what an outer npm has set for its own children. */
export async function npmInstall(cwd) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')))
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error']
  const { status, output } = await program('npm', args, { cwd, env })
  if (status !== 0) throw new Failure(`npm could not install the packages in ${cwd}. ${reasonOf(output)}`)
}

/** What to do about the failure of an installer, from what it printed. */
export function reasonOf(output) {
  if (/ENOSPC|no space left on device/i.test(output)) return 'The disk is full: free at least 1.5 GB and try again.'
  if (/SELF_SIGNED_CERT|UNABLE_TO_GET_ISSUER|unable to get local issuer|certificate verify failed/i.test(output))
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
  return `It said:\n${lines.slice(-8).join('\n')}`
}
