import type { Arrival, RunningVm } from '../driver.ts'
import type { PrepareContext } from '../../base/prepare-context.ts'
import { identity, identityMs } from '../identity.ts'
import { parseWorkload } from '../running-vm.ts'
import { readNotes } from '../prepare.ts'
import { awaitArrival } from '../transfer/stop-and-copy.ts'
import type { Wire } from '../transfer/wire.ts'
import { launch, type Launched, type LaunchPlan } from './launch.ts'
import type { Platform } from './platform.ts'

/** Starts a VMM that receives a VM from another host. */
export async function receiveVm(
  platform: Platform,
  host: string,
  plan: LaunchPlan,
  context: PrepareContext,
): Promise<Arrival> {
  const at = { host, madeBy: plan.madeBy, vmDir: plan.home.dir }
  return launch(platform, plan, context, launched =>
    awaitArrival(at, launched, wire => take(platform, wire, plan, launched)),
  )
}

async function take(platform: Platform, wire: Wire, plan: LaunchPlan, launched: Launched): Promise<RunningVm> {
  const { guest, runningVm, unlessGone } = launched
  await platform.takeGuest(wire, plan, launched)
  // The guest runs on this host now. Tell the source, to which later failures must not be reported.
  await wire.say({ say: 'running' }).catch(() => undefined)
  const words = identity(plan.home, readNotes(plan.prepared), { moved: true, renew: false })
  await unlessGone(guest.ready)
  await unlessGone(guest.request(`identity ${words}`, identityMs))
  return runningVm(parseWorkload(await guest.ready))
}
