import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { run } from '../../../lib/exec.ts'
import { hasCode } from '../../../lib/files.ts'
import { endProcess } from '../process.ts'
import { cachedProof, untilInitSpeaks } from '../proof.ts'
import { cellUser, cloudHypervisorApi, makeCell, place, spawnCloudHypervisor } from './cell.ts'
import { files, kernelArgs } from './config.ts'
import { consoles } from './consoles.ts'
import type { CloudHypervisorDeps } from './driver.ts'

/** A boot takes a second on real hardware, some ten on an emulated one. */
const proofLimitMs = 30_000

/**
 * Whether Cloud Hypervisor is here, guests can be connected to taps, and KVM carries a real guest under it: the guest's
 * kernel is booted once until our init speaks on the console.
 */
export async function probeCloudHypervisor(
  deps: CloudHypervisorDeps,
  signal: AbortSignal,
): Promise<{ available: boolean; detail: string }> {
  const { program, network } = deps
  const fix = 'put cloud-hypervisor on the PATH, or set MOTE_CLOUD_HYPERVISOR_BIN'
  if (!program) return { available: false, detail: `not installed: ${fix}` }
  if (network.mode !== 'tap') return { available: false, detail: 'needs taps: run the agent as root' }
  try {
    const version = (await run(program, ['--version'], { signal })).split('\n')[0]?.trim() ?? 'unknown'
    const guest = await deps.kernel()
    const proof = await cachedProof(deps.cacheDir, `${version} ${guest.initrd}`, signal, () =>
      prove(program, guest, signal),
    )
    const user = cellUser(deps.isolation.userOf('proof')) ? 'a user for each VM' : 'as root'
    if (proof === undefined) return { available: true, detail: `kvm, ${version}, ${user}, Linux ${guest.version}` }
    return { available: false, detail: `${proof} (${version})` }
  } catch (error) {
    if (signal.aborted) throw error
    return { available: false, detail: hasCode(error, 'ENOENT') ? `${program} is not there` : String(error) }
  }
}

/** @returns undefined when it works, otherwise why not. */
async function prove(
  program: string,
  { kernel, initrd }: { readonly kernel: string; readonly initrd: string },
  signal: AbortSignal,
): Promise<string | undefined> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-ch-'))
  try {
    const cell = await makeCell(dir, undefined)
    await place(cell, kernel, files.kernel, 'read')
    await place(cell, initrd, files.initrd, 'read')
    const { identity, ended } = await spawnCloudHypervisor(dir, cell, program)
    const console = consoles()
    console.follow(dir, identity)
    try {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(proofLimitMs)])
      const api = cloudHypervisorApi(dir)
      await Promise.race([untilAnswers(() => api.call('GET', '/vmm.ping'), limit), ended])
      await api.call('PUT', '/vm.create', {
        payload: { kernel: files.kernel, initramfs: files.initrd, cmdline: kernelArgs },
        memory: { size: 128 * 2 ** 20 },
        serial: { mode: 'Socket', socket: 'console.sock' },
        console: { mode: 'Off' },
      })
      await api.call('PUT', '/vm.boot')
      return await untilInitSpeaks(() => Promise.resolve(console.tail(dir)), ended, proofLimitMs, signal)
    } finally {
      console.forget(dir)
      await endProcess({ process: identity })
    }
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

async function untilAnswers(ask: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
  const answers = () =>
    ask().then(
      () => true,
      () => false,
    )
  while (!(await answers())) await sleep(10, undefined, { signal })
}
