import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { run } from '../../../lib/exec.ts'
import { hasCode } from '../../../lib/files.ts'
import { noIsolation } from '../isolation.ts'
import { endProcess } from '../process.ts'
import { cachedProof, untilInitSpeaks } from '../proof.ts'
import { vmmHttp } from '../vmm-http.ts'
import { apiSocket, consoleTail, makeCell, place, spawnFirecracker } from './cell.ts'
import type { FirecrackerDeps } from './driver.ts'
import { callAll } from './vmm.ts'
import { consoleCall, files, kernelArgs } from './requests.ts'

/** A boot takes a second on real hardware, some ten on an emulated one. */
const proofLimitMs = 30_000

/**
 * Whether Firecracker is here, guests can be connected to taps, and KVM carries a real guest under it: the guest's kernel
 * is booted once until our init speaks on the console.
 */
export async function probeFirecracker(
  deps: FirecrackerDeps,
  signal: AbortSignal,
): Promise<{ available: boolean; detail: string }> {
  const { programs, network } = deps
  if (!programs)
    return { available: false, detail: 'not installed: put firecracker on the PATH, or set MOTE_FIRECRACKER_BIN' }
  if (network.mode !== 'tap') return { available: false, detail: 'needs taps: run the agent as root' }
  try {
    const version = (await run(programs.firecracker, ['--version'], { signal })).split('\n')[0]?.trim() ?? 'unknown'
    const guest = await deps.kernel()
    const proof = await cachedProof(deps.cacheDir, `${version} ${guest.initrd}`, signal, () => prove(deps, signal))
    const jail = programs.jailer ? 'jailer' : 'no jailer'
    if (proof === undefined) return { available: true, detail: `kvm, ${version}, ${jail}, Linux ${guest.version}` }
    return { available: false, detail: `${proof} (${version})` }
  } catch (error) {
    if (signal.aborted) throw error
    return {
      available: false,
      detail: hasCode(error, 'ENOENT') ? `${programs.firecracker} is not there` : String(error),
    }
  }
}

/** @returns undefined when it works, otherwise why not. */
async function prove({ programs, kernel }: FirecrackerDeps, signal: AbortSignal): Promise<string | undefined> {
  if (!programs) return 'not installed'
  const { kernel: image, initrd } = await kernel()
  const dir = await mkdtemp(join(tmpdir(), 'mote-fc-'))
  try {
    const cell = await makeCell({ dir, id: 'mote-proof' }, programs, noIsolation.userOf('proof'))
    await place(cell, image, files.kernel, 'read')
    await place(cell, initrd, files.initrd, 'read')
    const { identity, ended } = await spawnFirecracker(dir, cell, programs)
    try {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(proofLimitMs)])
      const api = vmmHttp('Firecracker', cell.dir, apiSocket)
      await Promise.race([untilAnswers(() => api.call('GET', '/version'), limit), ended])
      await callAll(api, [
        consoleCall(),
        { method: 'PUT', path: '/machine-config', body: { vcpu_count: 1, mem_size_mib: 128 } },
        {
          method: 'PUT',
          path: '/boot-source',
          body: {
            ...{ kernel_image_path: files.kernel, initrd_path: files.initrd },
            boot_args: kernelArgs({ base: '-', scratch: '-', config: '-' }),
          },
        },
        { method: 'PUT', path: '/actions', body: { action_type: 'InstanceStart' } },
      ])
      return await untilInitSpeaks(() => consoleTail(dir), ended, proofLimitMs, signal)
    } finally {
      await endProcess({ process: identity })
    }
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

async function untilAnswers(ask: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
  while (
    !(await ask().then(
      () => true,
      () => false,
    ))
  )
    await sleep(10, undefined, { signal })
}
