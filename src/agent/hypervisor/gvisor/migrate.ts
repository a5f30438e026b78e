/** Migration by stop and copy: gVisor has checkpoints, and no live migration. */
import { mkdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { PrepareContext } from '../../base/prepare-context.ts'
import type { Arrival, MigrationProgress, RunningVm } from '../driver.ts'
import { identity, identityMs } from '../identity.ts'
import { readNotes } from '../prepare.ts'
import { parseWorkload } from '../running-vm.ts'
import { sendFile } from '../transfer/files.ts'
import { clearMark } from '../transfer/marks.ts'
import { awaitArrival, leaveByCopy, receiveFiles } from '../transfer/stop-and-copy.ts'
import type { Wire } from '../transfer/wire.ts'
import type { SandboxVm } from './running-vm.ts'
import { shareFiles } from './spec.ts'
import { restoreArrived, type Sandbox, type SandboxStart, shareDir, startSandbox } from './start.ts'

/** The files of an uncompressed checkpoint. `pages.img` also contains the changed files of the root file system. */
const checkpointFiles = ['checkpoint.img', 'pages_meta.img', 'pages.img'] as const

/** Sends the checkpoint of the paused sandbox. */
export function handOver(
  { runsc, id, home, running, madeBy }: SandboxVm,
  uri: string,
  onProgress: (progress: MigrationProgress) => void,
  signal: AbortSignal,
  release?: () => Promise<void>,
): Promise<{ downtimeMs: number }> {
  return leaveByCopy(
    {
      vmDir: home.dir,
      running,
      madeBy,
      totalBytes: async () => home.spec.memoryMib * 2 ** 20,
      async sendState(wire, dir, onBytes) {
        if ((await runsc.inspect(id)) !== 'paused') await runsc.pause(id)
        await runsc.checkpoint(id, dir)
        const share = shareDir(home.dir)
        for (const name of [shareFiles.init, shareFiles.config]) await sendFile(wire, name, join(share, name))
        for (const name of checkpointFiles) {
          const file = join(dir, name)
          if ((await stat(file)).size > 0) await sendFile(wire, name, file, undefined, onBytes)
        }
      },
      async resume() {
        if ((await runsc.inspect(id)) === 'paused') await runsc.resume(id)
      },
    },
    uri,
    onProgress,
    signal,
    release,
  )
}

/** Creates an empty sandbox that receives the checkpoint of a VM from another host. */
export async function receiveSandbox(
  plan: SandboxStart,
  { host, madeBy }: { readonly host: string; readonly madeBy: string },
  context: PrepareContext,
  runningVm: (sandbox: Sandbox, workload: RunningVm['workload']) => RunningVm,
): Promise<Arrival> {
  const at = { host, madeBy, vmDir: plan.home.dir }
  return startSandbox(plan, context, sandbox =>
    awaitArrival(at, sandbox, async wire => runningVm(sandbox, await take(wire, plan, sandbox))),
  )
}

/**
 * Receives the checkpoint. Restores it only after the source has given up the VM, because a restored sandbox runs
 * immediately.
 */
async function take(wire: Wire, plan: SandboxStart, sandbox: Sandbox): Promise<RunningVm['workload']> {
  const { home, prepared } = plan
  const { guest, unlessGone } = sandbox
  const incoming = join(home.dir, 'arriving')
  await rm(incoming, { recursive: true, force: true })
  await mkdir(incoming, { mode: 0o700 })
  const at = (name: string) => join(incoming, name)
  try {
    const names = [...checkpointFiles, shareFiles.init, shareFiles.config]
    await unlessGone(receiveFiles(wire, Object.fromEntries(names.map(name => [name, at(name)]))))
    await wire.say({ say: 'loaded' })
    await wire.expect('go')
    await clearMark(home.dir, 'arriving')
    const files = { init: at(shareFiles.init), config: at(shareFiles.config) }

    await unlessGone(restoreArrived(plan, sandbox, incoming, files))
    await unlessGone(guest.ready)
    // The guest runs on this host now. Tell the source, to which later failures must not be reported.
    await wire.say({ say: 'running' }).catch(() => undefined)
    await unlessGone(
      guest.request(`identity ${identity(home, readNotes(prepared), { moved: true, renew: false })}`, identityMs),
    )
    return parseWorkload(await unlessGone(guest.ready))
  } finally {
    await rm(incoming, { recursive: true, force: true })
  }
}
