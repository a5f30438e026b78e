/** The limit of apps that are replaced one VM at a time. */
import { expect } from 'vitest'
import { commandsOfRuns } from './release-operations.ts'
import type { Simulation } from './simulation.ts'

export interface LimitedRow {
  readonly id: string
  readonly wanted: number
  /** VMs, including those that are being removed. */
  readonly vms: number
}

/**
 * Never more VMs than the app wants, unless it wanted more when they were created: in the database, and, independently
 * of it, on the hosts.
 * @param before the VMs of each app at the last check
 * @param strays every VM that was given up with its host, which may still run it or hear of it late
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
      // The target of a migration has a VM that does not run yet.
      if (state !== 'running' && state !== 'paused') continue
      const isRun = commandsOfRuns.has(desired.spec.command?.[0] ?? '')
      if (desired.spec.appId === id && !isRun && !strays.has(vmId)) real.add(vmId)
    }
  if (real.size > limit) expect.fail(`${real.size} VMs of app ${id} run, and it wants ${wanted}`)
}
