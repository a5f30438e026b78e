// Builds the dashboard when its sources are not those it was built from. Plain JavaScript: see bootstrap.mjs.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const dashboard = join(root, 'dashboard')
const stamp = join(dashboard, 'dist', '.built-from')

/** Everything a build is made from; its own parts, and what it shares with the server. */
const sources = [
  ...['index.html', 'package-lock.json', 'vite.config.ts', 'src', 'public'].map(name => join(dashboard, name)),
  ...['client', 'contract'].map(name => join(root, 'src', name)),
]

/** The same for the same content, in whatever order a directory is read. */
export function sourcesHash() {
  const hash = createHash('sha256')
  for (const file of sources.flatMap(filesOf).sort()) hash.update(file.slice(root.length)).update(readFileSync(file))
  return hash.digest('hex')
}

const filesOf = path =>
  !statSync(path).isDirectory()
    ? [path]
    : readdirSync(path)
        .filter(name => !/^(?:node_modules|dist)$|\.test\.ts$/.test(name))
        .flatMap(name => filesOf(join(path, name)))

export const isDashboardFresh = () => existsSync(stamp) && readFileSync(stamp, 'utf8') === sourcesHash()

/**
 * @param node the project's own Node
 * @returns whether there is a build of these sources now; why not was said
 */
export function ensureDashboard(node) {
  if (isDashboardFresh()) return true
  const startedMs = Date.now()
  process.stderr.write('Building the dashboard ... ')
  const built = install() ?? build(node)
  if (built !== undefined) {
    process.stderr.write(`failed; everything else works without it\n${built}\n`)
    return false
  }
  process.stderr.write(`${((Date.now() - startedMs) / 1000).toFixed(1)} s\n`)
  return true
}

/** @returns what went wrong */
function install() {
  const lock = readFileSync(join(dashboard, 'package-lock.json'), 'utf8')
  const from = join(dashboard, 'node_modules', '.installed-from')
  if (existsSync(from) && readFileSync(from, 'utf8') === lock) return undefined
  const fault = done('npm', ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error'])
  if (fault === undefined) writeFileSync(from, lock)
  return fault
}

function build(node) {
  const hash = sourcesHash()
  const fault = done(node, [join(dashboard, 'node_modules', 'vite', 'bin', 'vite.js'), 'build', '--logLevel', 'error'])
  if (fault === undefined) writeFileSync(stamp, hash)
  return fault
}

function done(command, args) {
  const result = spawnSync(command, args, {
    cwd: dashboard,
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    // npm sets these for its own children; the inner npm must not take them for its configuration.
    env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_'))),
  })
  return result.status === 0 ? undefined : result.stderr || result.stdout || String(result.error)
}
