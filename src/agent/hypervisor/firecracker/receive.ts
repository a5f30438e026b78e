import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Arrival, Machine, PrepareContext } from '../driver.ts'
import { identity, identityMs } from '../identity.ts'
import { launch, type Launched, type LaunchPlan, type Platform } from '../launch.ts'
import { parseWorkload } from '../machine.ts'
import { endProcess } from '../process.ts'
import { readNotes } from '../prepare.ts'
import { configFile, scratchFile } from '../snapshot-files.ts'
import { fileReceiver } from '../transfer/files.ts'
import { clearMark, setMark } from '../transfer/marks.ts'
import { listenForVm, type Wire } from '../transfer/wire.ts'
import { type Cell, place } from './cell.ts'
import { placeDisks } from './boot.ts'
import { consoleCall, files, loadCall } from './requests.ts'
import { callAll, setState } from './vmm.ts'

/** Starts a Firecracker that waits for the files of a VM from another host. */
export async function receiveVm(
  platform: Platform<Cell>,
  host: string,
  plan: LaunchPlan,
  context: PrepareContext,
): Promise<Arrival> {
  const { dir } = plan.home
  return launch(platform, plan, context, async launched => {
    await setMark(dir, 'arriving')
    const listener = await listenForVm(host, plan.madeBy)
    const arrived = listener.wire.then(async wire => {
      try {
        return await take(wire, plan, launched)
      } catch (error) {
        await endProcess(launched.running)
        const reason = error instanceof Error ? error.message : String(error)
        await wire.say({ say: 'failed', reason }).catch(() => undefined)
        throw error
      } finally {
        wire.close()
        await rm(arrivingDir(dir), { recursive: true, force: true })
      }
    })
    arrived.catch(() => undefined)
    return {
      ...{ running: launched.running, uri: listener.uri, arrived },
      cancel: async () => {
        listener.close()
        launched.guest.close()
        await endProcess(launched.running)
        await arrived.catch(() => undefined)
      },
    }
  })
}

const arrivingDir = (dir: string) => join(dir, 'arriving')

async function take(wire: Wire, plan: LaunchPlan, launched: Launched<Cell>): Promise<Machine> {
  const { home, prepared } = plan
  const { cell, api, guest, machine, unlessGone } = launched
  const incoming = arrivingDir(home.dir)
  await rm(incoming, { recursive: true, force: true })
  await mkdir(incoming, { mode: 0o700 })
  await receiveFiles(wire, {
    [scratchFile]: join(home.dir, scratchFile),
    [configFile]: join(home.dir, configFile),
    [files.memory]: join(incoming, files.memory),
    [files.state]: join(incoming, files.state),
  })
  const { tap } = await placeDisks(cell, plan)
  for (const name of [files.memory, files.state]) await place(cell, join(incoming, name), name, 'read')
  await unlessGone(callAll(api, [consoleCall(), loadCall(tap)]))
  await wire.say({ say: 'loaded' })
  await wire.expect('go')
  await clearMark(home.dir, 'arriving')
  await unlessGone(setState(api, 'Resumed'))
  // From here on it runs here: the source is told so, and hears of no failure any more.
  await wire.say({ say: 'running' }).catch(() => undefined)
  const words = identity(home, readNotes(prepared), { moved: true, renew: false })
  await unlessGone(guest.ready)
  await unlessGone(guest.request(`identity ${words}`, identityMs))
  return machine(parseWorkload(await guest.ready))
}

/** Until the source says that it has sent all. */
async function receiveFiles(wire: Wire, paths: Readonly<Record<string, string>>): Promise<void> {
  const receiver = fileReceiver(paths)
  try {
    for (;;) {
      const frame = await wire.next()
      if (frame?.kind === 'data') await receiver.data(frame.offset, frame.data)
      else if (frame?.kind === 'message' && frame.message.say === 'file')
        await receiver.take(frame.message.name, frame.message.size)
      else if (frame?.kind === 'message' && frame.message.say === 'complete') return
      else throw new Error('the source ended before it had sent all')
    }
  } finally {
    await receiver.close()
  }
}
