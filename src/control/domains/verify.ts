/** Stores the result of a DNS check, and changes the app's route in the same transaction. */
import type { Tx } from '../../db/db.ts'
import { pokeSweep } from '../../engine/sweeper.ts'
import { publishEvent } from '../events/index.ts'
import { notify } from '../notifications/index.ts'
import { refreshRoute } from '../routing/index.ts'
import { type Found, decide } from './rules.ts'
import * as store from './store.ts'
import { certificateSweepName, sweepName } from './sweep-name.ts'

/**
 * Stores and applies the result of a DNS check. Idempotent. If another app already has the domain's name, that app
 * keeps it until its own record is missing: the record is checked next.
 * @returns the updated domain; undefined if it was deleted in the meantime
 */
export async function applyLook(tx: Tx, id: string, found: Found, now: Date): Promise<store.Domain | undefined> {
  const domain = await store.lock(tx, id)
  if (!domain) return undefined
  const decided = decide(domain, found, now)
  if (decided.state === 'verified' && domain.state !== 'verified') {
    const holder = await store.holder(tx, domain.name)
    if (holder && holder.id !== id) return refuse(tx, domain, holder.id)
  }
  const changed = await store.record(tx, id, decided)
  if (decided.state !== domain.state) await announce(tx, changed)
  return changed
}

async function refuse(tx: Tx, domain: store.Domain, holderId: string): Promise<store.Domain> {
  await store.checkSoon(tx, holderId)
  await pokeSweep(tx, sweepName)
  const message = `${domain.name} is in use by another app. Remove it there; or remove that app's TXT record, and wait.`
  return store.record(tx, domain.id, { ...domain, message, nextCheckMs: 60_000 })
}

async function announce(tx: Tx, domain: store.Domain): Promise<void> {
  await refreshRoute(tx, domain.appId)
  if (domain.state === 'verified') await pokeSweep(tx, certificateSweepName)
  const data = { domain: domain.name, message: domain.message }
  const kind = domain.state === 'verified' ? 'domain.verified' : 'domain.lost'
  publishEvent(tx, { projectId: domain.projectId, kind, appId: domain.appId, data })
  if (domain.state === 'lost') await reportLoss(tx, domain)
}

async function reportLoss(tx: Tx, { id, projectId, appId, name, message }: store.Domain): Promise<void> {
  const app = await store.appName(tx, appId)
  await notify(tx, {
    projectId,
    kind: 'domain.lost',
    entityName: name,
    resourceId: id,
    route: `/apps/${app}/network`,
    title: `${name} is no longer routed to ${app}`,
    body: `${message ?? 'Its TXT record is missing.'} The app is still available at its own hostname. Restore the record to serve the domain again.`,
  })
}
