/**
 * The workflow of a lost host, until the host reports again or is removed. Its only phase is overdue from the start,
 * which keeps an alert open for operators (`mote admin alerts`).
 */
import { createWorkflow, poke, readWorkflow } from '../../engine/runner.ts'
import { type Next, done, workflow, wait } from '../../engine/workflow.ts'
import type { Tx } from '../../db/db.ts'
import { seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { findLost, type LostHost, lockHost } from '../hosts/index.ts'
import { notifyOperators } from '../notifications/index.ts'
import { pokeWaitingFor } from './return-store.ts'

/** Polling interval. Polling is needed because heartbeats are written in batches, which poke no workflows. */
const pollMs = seconds(5)

export const hostWorkflow = (deps: Pick<Deps, 'db'>) =>
  workflow<LostHost>()({
    kind: 'host',
    edges: { missing: [] },
    load: id => findLost(deps.db, id),
    phases: {
      async missing({ subject: host }): Promise<Next<never>> {
        if (host.lost) return wait(pollMs)
        return done(async tx => {
          await lockHost(tx, host.id)
          if ((await findLost(tx, host.id))?.lost) throw new Error(`host ${host.name} was lost again in the meantime`)
          await pokeWaitingFor(tx, host.id)
          await report(tx, host, {
            kind: 'host.back',
            title: host.removed ? `Host ${host.name} was removed` : `Host ${host.name} is back`,
            body: host.removed
              ? 'The host was lost before it was removed.'
              : 'VMs that it still ran were replaced in the meantime and are removed there.',
          })
        })
      },
    },
  })

/**
 * Opens the alert of a lost host and notifies operators, in the transaction that marks the host as lost, after its row
 * was changed. @param vms number of its VMs
 */
export async function reportLoss(tx: Tx, host: { readonly id: string; readonly name: string }, vms: number) {
  // The workflow still exists if the host was back only briefly, so create it only if it is missing.
  if (await readWorkflow(tx, 'host', host.id)) await poke(tx, 'host', host.id)
  else await createWorkflow(tx, 'host', host.id, 'missing', { deadlineMs: 0 })
  await report(tx, host, {
    kind: 'host.lost',
    title: `Host ${host.name} is lost`,
    body: `The host does not answer. Its ${vms} VMs are restarted on other hosts as far as these have capacity. If it never comes back: mote host remove ${host.name} --force`,
  })
}

const report = (
  tx: Tx,
  host: { readonly id: string; readonly name: string },
  notice: { readonly kind: 'host.lost' | 'host.back'; readonly title: string; readonly body: string },
) => notifyOperators(tx, { ...notice, entityName: host.name, resourceId: host.id, route: `/hosts/${host.id}` })
