// Runs on any Node from 18 up with nothing installed: brings the project's own packages and its own Node, then hands
// over. Plain JavaScript for that reason; everything else is TypeScript that Node 24 runs as it is.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { programFile, programFlags } from './build.mjs'
import { ensureDashboard } from './dashboard.mjs'
import { ensureSystemPackages } from './system-packages.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const binaries = join(root, 'node_modules', '.bin')
const [verb = 'help', ...rest] = process.argv.slice(2)

const [major] = process.versions.node.split('.').map(Number)
if (major < 18) fail(`Node ${process.versions.node} is too old to start with; install Node 18 or newer.`)

ensureNodePackages()
const node = existsSync(join(binaries, 'node')) ? join(binaries, 'node') : process.execPath
if (['demo', 'up', 'test', 'check', 'dashboard'].includes(verb) && !rest.includes('--help')) {
  const isBuilt = ensureDashboard(node)
  if (verb === 'dashboard') process.exit(isBuilt ? 0 : 1)
}

if (verb === 'test') {
  ensureSystemPackages(['vm', 'build', 'image', 'test'], { mandatory: false })
  await run('tests', join(binaries, 'vitest'), ['run', ...rest])
} else if (verb === 'check') {
  ensureSystemPackages(['vm', 'build', 'image', 'test'], { mandatory: false })
  await run('types', join(binaries, 'tsc'), ['-p', 'tsconfig.json'])
  await run('types of the dashboard', join(binaries, 'tsc'), ['-p', 'dashboard/tsconfig.json'])
  await run('lint', join(binaries, 'oxlint'), ['--deny-warnings', 'src', 'test', 'dashboard/src'])
  await run('format', join(binaries, 'biome'), ['format', '.'])
  await run('dead code', join(binaries, 'knip'), [])
  await run('tests', join(binaries, 'vitest'), ['run', ...rest])
} else if (verb === 'build') {
  ensureDashboard(node)
  await run(undefined, node, [join(root, 'scripts', 'build.mjs')])
} else if (verb === 'bench') {
  ensureSystemPackages(['vm', 'build', 'image'], { mandatory: false })
  await run(undefined, node, [join(root, 'bench', 'run.ts'), ...rest])
} else {
  if (verb === 'demo' && !rest.includes('--help')) ensureSystemPackages(['vm', 'build', 'image'], { mandatory: true })
  // A cloud keeps its data beside the checkout; a command for people is about the folder they are in.
  const ofCloud = ['up', 'demo', 'control', 'agent', 'gateway'].includes(verb)
  const flags = ofCloud ? programFlags : []
  await run(
    undefined,
    node,
    [...flags, programFile(), verb, ...rest],
    ofCloud ? root : (process.env.INIT_CWD ?? process.cwd()),
  )
}

/**
 * Installs what the lock file says, when it is not the one that was installed from last. Not `npm ci`: that refuses a
 * lock file without the optional packages of foreign platforms, which registries that mirror only some of them leave out.
 */
function ensureNodePackages() {
  const lock = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex')
  const stamp = join(root, 'node_modules', '.installed-from')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return
  const startedMs = Date.now()
  process.stderr.write('Installing npm packages ... ')
  const result = spawnSync('npm', ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    // npm sets these for its own children; the inner npm must not take them for its configuration.
    env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_'))),
  })
  if (result.status !== 0) {
    process.stderr.write('failed\n')
    fail(`npm install failed:\n${result.stderr || result.stdout || result.error}`)
  }
  writeFileSync(stamp, lock)
  process.stderr.write(`${((Date.now() - startedMs) / 1000).toFixed(1)} s\n`)
  // Without it the sources run, which is slower and nothing else.
  spawnSync(join(binaries, 'node'), [join(root, 'scripts', 'build.mjs')], { cwd: root, stdio: 'ignore' })
}

/** Ends with the child's own exit code when it is not 0; signals reach the child, which decides. */
function run(label, command, args, cwd = root) {
  if (label) process.stderr.write(`\n== ${label}\n`)
  return new Promise(resolve => {
    const child = spawn(command, args, {
      cwd,
      stdio: 'inherit',
      env: { ...process.env, PATH: `${binaries}:${process.env.PATH ?? ''}` },
    })
    const forward = signal => child.kill(signal)
    process.on('SIGINT', forward).on('SIGTERM', forward)
    child.on('error', error => fail(`cannot run ${command}: ${error.message}`))
    child.on('exit', (code, signal) => {
      process.off('SIGINT', forward).off('SIGTERM', forward)
      if (code === 0) resolve()
      else process.exit(code ?? (signal === 'SIGINT' ? 130 : 143))
    })
  })
}

function fail(message) {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}
