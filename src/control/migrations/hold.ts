/**
 * Holds requests just before a VM leaves its host: gateways hold new requests, open requests may finish within a time
 * limit, and then the host hands the VM over. docs/decisions/0089-requests-during-a-move.md
 */
import type { MigrationObserved } from '../../contract/agent.ts'
import { type Next, wait } from '../../engine/workflow.ts'
import { poke } from '../../engine/runner.ts'
import { seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import type { LiveStats } from '../hosts/index.ts'
import { drainDecision, refreshRoute } from '../routing/index.ts'
import type { Moving } from './workflow.ts'
import * as store from './store.ts'

/** Interval of polls, in case a message is lost. Reports of gateways poke the workflow. */
const pollMs = 250
/**
 * Time after the end of the drain time at which the hold ends and the VM serves on its old host again. Gateways refuse
 * requests that are held for longer.
 */
const liftMs = seconds(15)

export type HoldDeps = Pick<Deps, 'config' | 'clock'> & { readonly live: Pick<LiveStats, 'drains'> }

/** Ends the hold of the VM if it has exceeded its time limit; otherwise returns undefined. */
export function lateHold({ config }: HoldDeps, m: Moving, now: Date): Next<never> | undefined {
  const limitMs = seconds(config.moveDrainSeconds) + liftMs
  if (m.heldAt === null || now.getTime() - m.heldAt.getTime() <= limitMs) return undefined
  return wait(0, async tx => {
    await store.lift(tx, m.id)
    await refreshRoute(tx, m.appId)
  })
}

/**
 * Returns the next step of the hold: begin it, wait for open requests, or allow the source host to hand the VM over.
 * Returns undefined if the host is not ready for that yet, or if it already has the permission.
 */
export function holding(
  { config, clock, live }: HoldDeps,
  m: Moving,
  observed: MigrationObserved | undefined,
  now: Date,
): Next<never> | undefined {
  if (m.releasedAt) return undefined
  if (observed?.migrationId !== m.id || observed.ready !== true) return undefined
  if (!m.heldAt)
    return wait(pollMs, async tx => {
      await store.hold(tx, m.id)
      await refreshRoute(tx, m.appId)
    })
  const facts = live.drains.facts(m.id, clock.now().getTime())
  const heldForMs = now.getTime() - m.heldAt.getTime()
  const boundMs = seconds(config.moveDrainSeconds)
  if (m.isRouted && drainDecision({ ...facts, heldForMs, boundMs }) === 'wait') return wait(pollMs)
  return wait(0, async tx => {
    await store.release(tx, m.id)
    await store.raise(tx, m.vmId)
    await poke(tx, 'vm', m.vmId)
  })
}
