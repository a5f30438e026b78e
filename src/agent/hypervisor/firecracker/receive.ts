import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { configFile, scratchFile } from '../snapshot-files.ts'
import { clearMark } from '../transfer/marks.ts'
import { receiveFiles } from '../transfer/stop-and-copy.ts'
import type { Wire } from '../transfer/wire.ts'
import { placeDisks } from '../vmm/boot.ts'
import { place } from '../vmm/cell.ts'
import type { Launched, LaunchPlan } from '../vmm/launch.ts'
import { title } from './cell.ts'
import { consoleCall, loadCall, stateFiles } from './requests.ts'
import { callAll, setPaused } from './vmm.ts'

/** Receives the files of a VM from another host, loads them, and resumes the guest once the source has given it up. */
export async function takeGuest(wire: Wire, plan: LaunchPlan, launched: Launched): Promise<void> {
  const { dir } = plan.home
  const { cell, api, unlessGone } = launched
  const incoming = join(dir, 'arriving')
  await rm(incoming, { recursive: true, force: true })
  await mkdir(incoming, { mode: 0o700 })
  try {
    await receiveFiles(wire, {
      [scratchFile]: join(dir, scratchFile),
      [configFile]: join(dir, configFile),
      [stateFiles.memory]: join(incoming, stateFiles.memory),
      [stateFiles.state]: join(incoming, stateFiles.state),
    })
    const { tap } = await placeDisks({ title }, cell, plan)
    for (const name of Object.values(stateFiles)) await place(cell, join(incoming, name), name, 'read')
    await launched.tap.make()
    await unlessGone(callAll(api, [consoleCall(), loadCall(tap)]))
    await launched.tap.bring()
  } finally {
    await rm(incoming, { recursive: true, force: true })
  }
  await wire.say({ say: 'loaded' })
  await wire.expect('go')
  await clearMark(dir, 'arriving')
  await unlessGone(setPaused(api, false))
}
