import type { Arrival, RunningVm } from '../driver.ts'
import type { PrepareContext } from '../../base/prepare-context.ts'
import { identity, identityMs } from '../identity.ts'
import { parseWorkload } from '../running-vm.ts'
import { readNotes } from '../prepare.ts'
import { endProcess } from '../process.ts'
import { setMark } from '../transfer/marks.ts'
import { listenForVm, type Wire } from '../transfer/wire.ts'
import { launch, type Launched, type LaunchPlan } from './launch.ts'
import type { Platform } from './platform.ts'

/** Starts a VMM that receives a VM from another host. */
export async function receiveVm(
  platform: Platform,
  host: string,
  plan: LaunchPlan,
  context: PrepareContext,
): Promise<Arrival> {
  return launch(platform, plan, context, async launched => {
    await setMark(plan.home.dir, 'arriving')
    const listener = await listenForVm(host, plan.madeBy)
    const arrived = listener.wire.then(async wire => {
      try {
        return await take(platform, wire, plan, launched)
      } catch (error) {
        await endProcess(launched.running)
        const reason = error instanceof Error ? error.message : String(error)
        await wire.say({ say: 'failed', reason }).catch(() => undefined)
        throw error
      } finally {
        wire.close()
      }
    })
    arrived.catch(() => undefined)
    return {
      running: launched.running,
      uri: listener.uri,
      arrived,
      cancel: async () => {
        listener.close()
        launched.guest.close()
        await endProcess(launched.running)
        await arrived.catch(() => undefined)
      },
    }
  })
}

async function take(platform: Platform, wire: Wire, plan: LaunchPlan, launched: Launched): Promise<RunningVm> {
  const { guest, runningVm, unlessGone } = launched
  await platform.takeGuest(wire, plan, launched)
  // The guest runs here now. Report that to the source; later failures are not reported to it.
  await wire.say({ say: 'running' }).catch(() => undefined)
  const words = identity(plan.home, readNotes(plan.prepared), { moved: true, renew: false })
  await unlessGone(guest.ready)
  await unlessGone(guest.request(`identity ${words}`, identityMs))
  return runningVm(parseWorkload(await guest.ready))
}
