/** The maximum number of VMs of apps whose VMs are replaced one at a time. */
import { expect } from 'vitest'
import { commandsOfRuns } from './release-operations.ts'
import type { Simulation } from './simulation.ts'

export interface LimitedRow {
  readonly id: string
  readonly wanted: number
  /** Number of VMs in the database, including those that are being removed. */
  readonly vms: number
}

/**
 * Checks that an app has no more VMs than it wants, in the database and on the hosts. If the wanted number has
 * decreased, it may still have as many as before.
 * @param before number of VMs of each app at the last check
 * @param strays VMs that were given up with their host, which may still run them
 */
export function checkLimit(
  sim: Simulation,
  { id, wanted, vms }: LimitedRow,
  before: Map<string, number>,
  strays: ReadonlySet<string>,
): void {
  const limit = Math.max(wanted, before.get(id) ?? 0)
  if (vms > limit) expect.fail(`app ${id} has ${vms} VMs, and wants ${wanted}`)
  before.set(id, vms)
  const real = new Set<string>()
  for (const host of sim.world.hosts)
    for (const [vmId, { desired, state }] of host.vms) {
      // Excludes the copy of a migrating VM on the target host, which does not run yet.
      if (state !== 'running' && state !== 'paused') continue
      const isRun = commandsOfRuns.has(desired.spec.command?.[0] ?? '')
      if (desired.spec.appId === id && !isRun && !strays.has(vmId)) real.add(vmId)
    }
  if (real.size > limit) expect.fail(`${real.size} VMs of app ${id} run, and it wants ${wanted}`)
}
