// Builds the dashboard if its sources have changed since the last build. Plain JavaScript: see bootstrap.mjs.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './project-node.mjs'
import { Failure, npmInstall, program, reasonOf, step } from './step.mjs'

const dashboard = join(root, 'dashboard')
const stamp = join(dashboard, 'dist', '.built-from')

/** All inputs of the build: the dashboard's own files, and those that it shares with the server. */
const sources = [
  ...['index.html', 'package-lock.json', 'vite.config.ts', 'src', 'public'].map(name => join(dashboard, name)),
  ...['appfile', 'client', 'compose', 'contract', 'lib/mount-point.ts', 'lib/posix-path.ts', 'stack'].map(name =>
    join(root, 'src', name),
  ),
  join(root, 'templates'),
]

/** Independent of the order in which directories are read. */
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
 * @returns whether an up-to-date build exists; failures are reported
 */
export async function ensureDashboard(node) {
  if (isDashboardFresh()) return true
  try {
    await step('Building the dashboard', async () => {
      await install(node)
      await build(node)
    })
    return true
  } catch (error) {
    process.stderr.write(`Everything but the dashboard works without it. ${error.message}\n`)
    return false
  }
}

async function install(node) {
  const lock = readFileSync(join(dashboard, 'package-lock.json'), 'utf8')
  const from = join(dashboard, 'node_modules', '.installed-from')
  if (existsSync(from) && readFileSync(from, 'utf8') === lock) return
  await npmInstall(dashboard, node)
  writeFileSync(from, lock)
}

async function build(node) {
  const hash = sourcesHash()
  const vite = join(dashboard, 'node_modules', 'vite', 'bin', 'vite.js')
  const { status, output } = await program(node, [vite, 'build', '--logLevel', 'error'], { cwd: dashboard })
  if (status !== 0) throw new Failure(reasonOf(output))
  writeFileSync(stamp, hash)
}
