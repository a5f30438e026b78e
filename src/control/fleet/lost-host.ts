/**
 * A host that is lost, until it is heard of again or removed. Being in the only phase is the alert: it is overdue from
 * the start, so that operators see it as long as it lasts (`mote admin alerts`).
 */
import { createWorkflow, poke, readWorkflow } from '../../engine/runner.ts'
import { type Next, done, workflow, wait } from '../../engine/workflow.ts'
import type { Tx } from '../../db/db.ts'
import { seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { findLost, type LostHost, lockHost } from '../hosts/index.ts'
import { notifyOperators } from '../notifications/index.ts'
import { pokeWaitingFor } from './return-store.ts'

/** Beats of hosts are written in batches, which poke nobody. */
const lookAgainMs = seconds(5)

export const hostWorkflow = (deps: Pick<Deps, 'db'>) =>
  workflow<LostHost>()({
    kind: 'host',
    edges: { missing: [] },
    load: id => findLost(deps.db, id),
    phases: {
      async missing({ subject: host }): Promise<Next<never>> {
        if (host.lost) return wait(lookAgainMs)
        return done(async tx => {
          await lockHost(tx, host.id)
          if ((await findLost(tx, host.id))?.lost) throw new Error(`host ${host.name} was lost again meanwhile`)
          await pokeWaitingFor(tx, host.id)
          await report(tx, host, {
            kind: 'host.back',
            title: host.removed ? `Host ${host.name} was removed` : `Host ${host.name} is back`,
            body: host.removed
              ? 'It was lost before.'
              : 'Whatever it still ran was replaced meanwhile and is removed there.',
          })
        })
      },
    },
  })

/** In the transaction that gives the host up, after its row was changed. @param vms how many it had */
export async function reportLoss(tx: Tx, host: { readonly id: string; readonly name: string }, vms: number) {
  // One that was back for a moment only is still being reported as lost.
  if (await readWorkflow(tx, 'host', host.id)) await poke(tx, 'host', host.id)
  else await createWorkflow(tx, 'host', host.id, 'missing', { deadlineMs: 0 })
  await report(tx, host, {
    kind: 'host.lost',
    title: `Host ${host.name} is lost`,
    body: `It does not answer. ${vms} of its VMs start on other hosts as far as there is room. When it never comes back: mote host remove ${host.name} --force`,
  })
}

const report = (
  tx: Tx,
  host: { readonly id: string; readonly name: string },
  notice: { readonly kind: 'host.lost' | 'host.back'; readonly title: string; readonly body: string },
) => notifyOperators(tx, { ...notice, entityName: host.name, resourceId: host.id, route: `/hosts/${host.id}` })
