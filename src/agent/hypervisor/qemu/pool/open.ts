import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findProgram } from '../../../../lib/programs.ts'
import { type Launcher, openLauncher } from '../../../launcher/launcher.ts'
import type { Isolation } from '../../isolation.ts'
import { qemuBinary } from '../spawn.ts'
import { noPool, openPool, type VmmPool } from './pool.ts'
import { startWaiting } from './waiting.ts'

export interface QemuPoolDeps {
  /** How many wait at most; 0: none. */
  readonly size: number
  /** The agent's own. */
  readonly dataDir: string
  readonly cacheDir: string
  readonly launcher: Launcher
  readonly isolation: Isolation
  readonly onError: (error: unknown) => void
}

/** Written anew whenever a library is installed (ldconfig(8)). */
const librariesOfHost = '/etc/ld.so.cache'

/**
 * Has one wait and ends it.
 * @throws Error saying why none can
 */
export async function proveWaiting(cacheDir: string, signal: AbortSignal): Promise<void> {
  const launcher = await openLauncher(cacheDir)
  const dir = await mkdtemp(join(tmpdir(), 'mote-waiting-'))
  try {
    const waiting = await startWaiting({ program: qemuBinary, launcher, cacheDir, dir, apart: false }, signal)
    await waiting.end()
  } finally {
    launcher.close()
    await rm(dir, { recursive: true, force: true })
  }
}

/** The pool of an agent that starts QEMU; it is empty until `begin`. */
export async function openQemuPool(deps: QemuPoolDeps): Promise<VmmPool> {
  const { size, dataDir, cacheDir, launcher, isolation, onError } = deps
  const program = size > 0 ? await findProgram(qemuBinary) : undefined
  if (program === undefined) return noPool
  const dir = join(dataDir, 'waiting')
  const apart = isolation.netless !== undefined
  const pool = openPool({
    size,
    dir,
    madeOf: [program, librariesOfHost],
    onError,
    async start(signal) {
      const cgroup = await isolation.cgroups?.makeWaiting()
      const where = cgroup === undefined ? {} : { cgroup }
      return startWaiting({ program: qemuBinary, launcher, cacheDir, dir, apart, ...where }, signal)
    },
  })
  return {
    ...pool,
    get waiting() {
      return pool.waiting
    },
    async close() {
      await pool.close()
      await isolation.cgroups?.releaseWaiting()
    },
  }
}
