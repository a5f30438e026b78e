// Runs on any Node from version 18 with nothing installed: installs the project's packages and its own Node, then runs
// the command. For that reason it is plain JavaScript; all other code is TypeScript that Node 24 runs directly.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { programFile, programFlags } from './build.mjs'
import { ensureDashboard } from './dashboard.mjs'
import { isNewEnough, projectNode, root, starts, tool, withProjectTools } from './project-node.mjs'
import { ensureSite, siteServer } from './site.mjs'
import { Failure, npmInstall, step } from './step.mjs'
import { ensureSystemPackages } from './system-packages.mjs'

// PostgreSQL and VMs run as other users of this computer, so all users must be able to read the installed files, even
// if the umask is 077.
process.umask(0o022)

const [asked = 'help', ...rest] = process.argv.slice(2)
// Tests read this variable (test/support/all-examples.ts).
if (asked === 'test-all') process.env.MOTE_TEST_ALL = '1'
const verb = asked === 'test-all' ? 'test' : asked
/** The Node that is installed only to run npm, if the system's Node is too old for npm. */
const firstNode = join(root, 'node_modules', '.first-node')

try {
  await main()
} catch (error) {
  process.stderr.write(`${error instanceof Failure ? error.message : (error.stack ?? error)}\n`)
  process.exit(1)
}

async function main() {
  const [major] = process.versions.node.split('.').map(Number)
  if (major < 18)
    throw new Failure(`Node ${process.versions.node} is too old to start with: install Node 18 or newer, with npm.`)
  if (asksForHelp() && !isInstalled()) return void process.stdout.write(helpBeforeInstallation())
  await ensureNodePackages()
  const node = nodeOrFail()
  if (['demo', 'up', 'test', 'check', 'dashboard'].includes(verb) && !asksForHelp()) {
    const isBuilt = await ensureDashboard(node)
    if (verb === 'dashboard') process.exit(isBuilt ? 0 : 1)
  }
  if (['docs', 'test', 'check'].includes(verb) && !asksForHelp()) {
    const isBuilt = await ensureSite(node)
    if (verb === 'docs') process.exit(isBuilt ? 0 : 1)
  }
  const runTool = (label, name, args) => run(label, node, [tool[name], ...args], node)
  if (verb === 'docs-dev') {
    await run(undefined, node, await siteServer(node, rest), node, join(root, 'site'))
  } else if (verb === 'test-quick') {
    process.env.MOTE_TEST_QUICK = '1'
    await runTool('quick tests', 'vitest', ['run', '--project', 'quick*', ...rest])
  } else if (verb === 'test' || verb === 'check') {
    await ensureSystemPackages(['vm', 'image', 'test', 'registry'])
    ensureBuild(node)
    if (verb === 'check') {
      await runTool('types', 'tsc', ['-p', 'tsconfig.json'])
      await runTool('types of the dashboard', 'tsc', ['-p', 'dashboard/tsconfig.json'])
      await runTool('types of the site', 'tsc', ['-p', 'site/tsconfig.json'])
      await runTool('lint', 'oxlint', ['--deny-warnings', 'src', 'test', 'dashboard/src'])
      await runTool('format', 'biome', ['format', '.'])
      await runTool('dead code', 'knip', [])
    }
    await runTool('tests', 'vitest', ['run', ...rest])
  } else if (verb === 'build') {
    await ensureDashboard(node)
    await run(undefined, node, [join(root, 'scripts', 'build.mjs')], node)
  } else if (verb === 'bench') {
    await ensureSystemPackages(['vm', 'image'])
    await run(undefined, node, [join(root, 'bench', 'run.ts'), ...rest], node)
  } else {
    if (['demo', 'up'].includes(verb) && !asksForHelp() && !simulates())
      await ensureSystemPackages(['vm', 'image'], { mandatory: verb === 'demo' })
    if (['up', 'control'].includes(verb) && !asksForHelp() && asksForRegistry())
      await ensureSystemPackages(['registry'])
    if (startsRegistry() && !asksForHelp() && !simulates()) await ensureSystemPackages(['registry'], { quiet: true })
    // A command that starts a cloud runs in the checkout, where the cloud keeps its data. All other commands run in the
    // current folder of the user.
    const ofCloud = ['up', 'demo', 'control', 'agent', 'gateway'].includes(verb)
    const flags = ofCloud ? programFlags : []
    const cwd = ofCloud ? root : (process.env.INIT_CWD ?? process.cwd())
    await run(undefined, node, [...flags, programFile(), ...process.argv.slice(2)], node, cwd)
  }
}

function asksForHelp() {
  return ['help', '--help', '-h', '--version', '-V'].includes(verb) || rest.includes('--help') || rest.includes('-h')
}

/** Returns whether the VMs are simulated. Then no system packages are needed. */
function simulates() {
  const at = rest.indexOf('--hypervisor')
  return (
    rest.includes('--hypervisor=fake') || (at >= 0 && rest[at + 1] === 'fake') || process.env.MOTE_HYPERVISOR === 'fake'
  )
}

function asksForRegistry() {
  return Boolean(process.env.MOTE_REGISTRY_PORT) || rest.some(one => one.startsWith('--registry-port'))
}

/** Returns whether the command starts or installs an image registry unless options say otherwise. */
function startsRegistry() {
  const { MOTE_REGISTRY, MOTE_REGISTRY_PORT, MOTE_REGISTRY_URL } = process.env
  if (MOTE_REGISTRY || MOTE_REGISTRY_URL || MOTE_REGISTRY_PORT === '') return false
  if (verb === 'install')
    return rest[0] === 'control' && !rest.some(one => /^(?:--print|--root|(?:--set=)?MOTE_REGISTRY)/.test(one))
  return verb === 'up'
}

/**
 * Returns the output of `--help` or `--version` while no packages are installed. The help of single commands needs the
 * packages.
 */
function helpBeforeInstallation() {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  if (['--version', '-V'].includes(verb)) return `${version}\n`
  return `Mote ${version}: a microVM cloud you can run yourself

Nothing is installed in this checkout yet. The first of these commands installs what is missing and says so:
  npm run demo      the whole cloud, with an app in a real microVM; Ctrl-C stops it
  npm start         the cloud without the demo
  npm test          the tests
After that, "bin/mote --help" lists every command. README.md is the place to begin.
`
}

function nodeOrFail() {
  try {
    return projectNode()
  } catch (error) {
    throw new Failure(error.message)
  }
}

function lockHash() {
  return createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex')
}

function stampFile() {
  return join(root, 'node_modules', '.installed-from')
}

function isInstalled() {
  return existsSync(stampFile()) && readFileSync(stampFile(), 'utf8') === lockHash()
}

/**
 * Installs the packages of the lock file if the lock file has changed since the last installation. `npm ci` is not
 * usable: it rejects a lock file if the registry lacks optional packages of other platforms, which partial mirrors
 * leave out.
 */
async function ensureNodePackages() {
  if (isInstalled()) return
  await step('Installing npm packages (once, about a minute)', async () => npmInstall(root, await nodeForNpm()))
  rmSync(firstNode, { recursive: true, force: true })
  writeFileSync(stampFile(), lockHash())
  ensureBuild(nodeOrFail())
}

/** Builds the programs if their sources are newer. After a failed build, Node runs the sources, which start more slowly. */
function ensureBuild(node) {
  if (programFile().endsWith('.ts'))
    spawnSync(node, [join(root, 'scripts', 'build.mjs')], { cwd: root, stdio: 'ignore' })
}

/**
 * Finds the Node that runs npm.
 * @returns the Node of this process if it is new enough, else the project's, which is installed before the other
 * packages
 */
async function nodeForNpm() {
  const name = `node-${process.platform}-${process.arch}`
  const { optionalDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  if (isNewEnough() || optionalDependencies[name] === undefined) return process.execPath
  mkdirSync(firstNode, { recursive: true })
  writeFileSync(join(firstNode, 'package.json'), '{ "private": true }\n')
  await npmInstall(firstNode, process.execPath, [`${name}@${optionalDependencies[name]}`])
  const node = join(firstNode, 'node_modules', name, 'bin', 'node')
  return starts(node) ? node : process.execPath
}

/** Runs a program and passes signals on to it. Exits with its exit code if that is not 0. */
function run(label, command, args, node, cwd = root) {
  if (label) process.stderr.write(`\n== ${label}\n`)
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, stdio: 'inherit', env: withProjectTools(node) })
    const forward = signal => child.kill(signal)
    process.on('SIGINT', forward).on('SIGTERM', forward)
    child.on('error', error => reject(new Failure(`cannot run ${command}: ${error.message}`)))
    child.on('exit', (code, signal) => {
      process.off('SIGINT', forward).off('SIGTERM', forward)
      if (code === 0) resolve()
      else process.exit(code ?? (signal === 'SIGINT' ? 130 : 143))
    })
  })
}
