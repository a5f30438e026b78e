import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { MigrationProgress } from '../driver.ts'
import { configFile, scratchFile } from '../snapshot-files.ts'
import { type Sent, sendFile } from '../transfer/files.ts'
import { leaveByCopy } from '../transfer/stop-and-copy.ts'
import type { VmContext } from '../vmm/platform.ts'
import { stateFiles } from './requests.ts'
import { setPaused, writeState } from './vmm.ts'

/**
 * Migrates a VM by stop and copy, because Firecracker has no live migration. The scratch disk is sent while the guest
 * runs. Its changed parts are sent with the state of the paused guest.
 */
export async function handOver(
  vm: VmContext,
  uri: string,
  onProgress: (progress: MigrationProgress) => void,
  signal: AbortSignal,
  release?: () => Promise<void>,
): Promise<{ downtimeMs: number }> {
  const { vmDir, api, running, madeBy } = vm
  const scratch = join(vmDir, scratchFile)
  let sent: Sent | undefined
  return leaveByCopy(
    {
      vmDir,
      running,
      madeBy,
      totalBytes: async () => (await stat(scratch)).size * 2 + vm.memoryMib * 2 ** 20,
      async sendAhead(wire, onBytes) {
        sent = await sendFile(wire, scratchFile, scratch, undefined, onBytes)
      },
      async sendState(wire, dir, onBytes) {
        await setPaused(api, true)
        await writeState(vm, dir)
        await sendFile(wire, scratchFile, scratch, sent, onBytes)
        await sendFile(wire, configFile, join(vmDir, configFile))
        await sendFile(wire, stateFiles.memory, join(dir, stateFiles.memory), undefined, onBytes)
        await sendFile(wire, stateFiles.state, join(dir, stateFiles.state))
      },
      resume: () => setPaused(api, false),
    },
    uri,
    onProgress,
    signal,
    release,
  )
}
