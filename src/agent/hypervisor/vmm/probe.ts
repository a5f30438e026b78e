import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import { hasCode } from '../../../lib/files.ts'
import type { GuestKernel } from '../../guest/kernel.ts'
import type { Network } from '../../net/net.ts'
import type { Isolation } from '../isolation.ts'
import { endProcess } from '../process.ts'
import { cachedProof, untilInitSpeaks } from '../proof.ts'
import { cellFiles, place } from './cell.ts'
import { untilAnswers } from './launch.ts'
import type { Platform } from './platform.ts'
import { ageOf } from './version.ts'

export interface ProbeDeps {
  readonly cacheDir: string
  readonly network: Pick<Network, 'mode'>
  readonly kernel: () => Promise<GuestKernel>
  readonly userOf: Isolation['userOf']
}

export interface Probe {
  readonly available: boolean
  readonly detail: string
  /** How to make the VMM work on this host; null if it works. */
  readonly fix: string | null
}

/** Timeout of the test boot, which takes one second on real hardware and about ten with nested emulation. */
const proofLimitMs = 30_000

/**
 * Checks that the VMM is installed and recent enough, that taps are available, and that KVM works. A test boot runs
 * the guest's kernel until Mote's init writes to the console.
 */
export async function probeVmm(deps: ProbeDeps, platform: Platform, signal: AbortSignal): Promise<Probe> {
  const { file, command, variable, tested, from } = platform.program
  const no = (detail: string, fix: string): Probe => ({ available: false, detail, fix })
  const install = `put ${command} v${tested} of ${from} on the PATH, or set ${variable}`
  if (!file) return no('not installed', install)
  if (deps.network.mode !== 'tap') return no('needs taps', 'run the agent as root')
  try {
    const version = (await run(file, ['--version'], { signal })).split('\n')[0]?.trim() ?? 'unknown'
    const age = ageOf(version, tested)
    if (age === 'older') return no(`${version} is older than v${tested}, the oldest supported version`, install)
    const guest = await deps.kernel()
    const about = `${version} ${guest.initrd}`
    const proof = await cachedProof(deps.cacheDir, about, signal, () => prove(platform, guest, signal))
    if (proof !== undefined)
      return no(
        `${proof} (${version})`,
        'use a host with hardware virtualization (/dev/kvm), or the qemu driver, which can emulate',
      )
    const trait = platform.traitOf(deps.userOf('proof'))
    const newer = age === 'newer' ? `, newer than the tested v${tested}` : ''
    const detail = `kvm, ${version}${newer}, ${trait.says}, Linux ${guest.version}`
    return { available: true, detail, fix: trait.fix ?? null }
  } catch (error) {
    if (signal.aborted) throw error
    return hasCode(error, 'ENOENT')
      ? no(`${file} does not exist`, `set ${variable}`)
      : no(String(error), 'see the detail')
  }
}

/** Boots a guest without devices. @returns undefined if Mote's init wrote to the console, otherwise the reason */
async function prove(platform: Platform, guest: GuestKernel, signal: AbortSignal): Promise<string | undefined> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-proof-'))
  try {
    const { cell, process } = await platform.start({ dir, vmId: basename(dir) }, undefined, 'host')
    try {
      await place(cell, guest.kernel, cellFiles.kernel, 'read')
      await place(cell, guest.initrd, cellFiles.initrd, 'read')
      const limit = AbortSignal.any([signal, AbortSignal.timeout(proofLimitMs)])
      const api = platform.api(dir)
      await Promise.race([untilAnswers(api, platform.greeting, limit), process.ended])
      await Promise.race([platform.bootProof(api), process.ended])
      return await untilInitSpeaks(() => platform.consoleTail(dir), process.ended, proofLimitMs, signal)
    } finally {
      await endProcess({ process: process.identity })
      platform.forget?.(dir)
      await platform.release(dir)
    }
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}
