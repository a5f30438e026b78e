import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { mkdir } from 'node:fs/promises'
import { run } from '../../../lib/exec.ts'
import { hasCode } from '../../../lib/files.ts'
import type { Network } from '../../net/net.ts'
import { cachedPass } from '../proof.ts'
import { oldestRunsc, runscVersion } from './runsc.ts'

export interface RunscProbe {
  readonly available: boolean
  readonly detail: string
  /** How to make gVisor work on this host; null if it works. */
  readonly fix: string | null
}

export interface RunscProbeDeps {
  readonly cacheDir: string
  readonly network: Pick<Network, 'mode'>
  /** Path of runsc; undefined if it is not installed. */
  readonly program: string | undefined
  readonly init: () => Promise<string>
}

/**
 * Checks that runsc is installed and recent enough, that veth pairs can be created, and that sandboxes start reliably.
 */
export async function probeRunsc(deps: RunscProbeDeps, signal: AbortSignal): Promise<RunscProbe> {
  const { program, network, cacheDir } = deps
  const no = (detail: string, fix: string): RunscProbe => ({ available: false, detail, fix })
  if (program === undefined)
    return no('not installed', 'run mote runsc install: without KVM, apps then run at native speed')
  if (network.mode !== 'tap') return no('needs taps', 'run the agent as root')
  try {
    const version = await runscVersion(program)
    if (isOlder(version)) return no(`${version} is older than ${oldestRunsc}`, 'run mote runsc install')
    const init = await deps.init()
    const about = `runsc ${program} ${version} ${init}`
    const failed = await cachedPass(cacheDir, about, () => proveStarts(program, init, cacheDir, signal))
    signal.throwIfAborted()
    if (failed !== undefined) return no(`${failed} (${version})`, 'run mote runsc install, or use another hypervisor')
    const tested = `systrap, ${version}, ${proofStarts} of ${proofStarts} test starts succeeded`
    return { available: true, detail: tested, fix: null }
  } catch (error) {
    if (signal.aborted) throw error
    if (hasCode(error, 'ENOENT')) return no(`${program} does not exist`, 'set MOTE_RUNSC_BIN')
    return no(String(error), 'see the detail')
  }
}

/**
 * True for a release that is too old; a release's version begins with a date. Other builds have no date, and only the
 * test starts show whether they work.
 */
const isOlder = (version: string) => /^\d{8}/.test(version) && version < oldestRunsc

/** Number of test starts. A runsc built with an unsuitable Go toolchain failed in only one of seven starts. */
const proofStarts = 20
const atOnce = 2
const startMs = 20_000

/** Starts test sandboxes. @returns undefined if every start succeeds, otherwise the reason */
async function proveStarts(
  program: string,
  init: string,
  cacheDir: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  await mkdir(cacheDir, { recursive: true })
  const dir = await mkdtemp(join(cacheDir, 'runsc-proof-'))
  try {
    await mkdir(join(dir, 'root'))
    await writeFile(join(dir, 'config.json'), JSON.stringify(proofSpec(init)))
    let next = 0
    let failed: string | undefined
    const worker = async () => {
      while (next < proofStarts && failed === undefined) {
        const id = `proof-${next++}`
        const options = [
          '--root',
          join(dir, 'state'),
          '--network',
          'none',
          '--ignore-cgroups',
          '--overlay2',
          'root:memory',
        ]
        const args = [...options, 'run', '-bundle', dir, id]
        await run(program, args, { timeoutMs: startMs, signal }).catch((error: unknown) => {
          failed = `start ${id} failed: ${error instanceof Error ? error.message : String(error)}`
        })
      }
    }
    await Promise.all(Array.from({ length: atOnce }, worker))
    return failed
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** Returns the specification of a sandbox that runs `init proof`, which exits immediately. */
function proofSpec(init: string): unknown {
  return {
    ociVersion: '1.1.0',
    process: { user: { uid: 0, gid: 0 }, args: ['/init', 'proof'], env: [], cwd: '/', noNewPrivileges: true },
    root: { path: 'root', readonly: true },
    mounts: [{ destination: '/init', type: 'bind', source: init, options: ['ro', 'bind'] }],
    linux: { namespaces: ['pid', 'network', 'ipc', 'uts', 'mount'].map(type => ({ type })) },
  }
}
