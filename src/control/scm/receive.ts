/**
 * Receives a webhook delivery of a git host: verifies the signature over the raw body, ignores duplicates, and applies
 * the event.
 */
import type { Tx } from '../../db/db.ts'
import { isUuid } from '../../lib/ids.ts'
import { semaphore } from '../../lib/semaphore.ts'
import { notFound, unauthenticated } from '../http/errors.ts'
import { type ApplyDeps, type Effect, applyEvent, applyToApp } from './apply.ts'
import { parseEvent } from './events.ts'
import type { SourceHost } from './provider.ts'
import { describeDelivery, type Headers, isSigned, type Proof, proofOf } from './signature.ts'
import * as store from './store.ts'

export type Received = Effect | 'duplicate' | 'pong'

/** Verifies and parses a delivery. @returns a function that applies the event in a transaction @throws ApiError 401 */
export type Receive = (raw: Buffer, headers: Headers, traceparent: string) => Promise<(tx: Tx) => Promise<Received>>

const refused = () => unauthenticated('The signature is missing or invalid.')

/** Receives deliveries of the integration (GitHub App). @throws ApiError 404 if none is configured */
export function receiveFromHost(deps: ApplyDeps, host: SourceHost | undefined): Receive {
  return async (raw, headers, traceparent) => {
    if (!host) throw notFound()
    const signature = headers['x-hub-signature-256']
    if (typeof signature !== 'string' || proofOf({ 'x-hub-signature-256': signature }) === undefined) throw refused()
    if (!(await host.isSigned(raw, signature))) throw refused()
    const delivery = describeDelivery(raw, headers)
    const event = delivery && parseEvent(delivery, raw)
    return async tx => {
      if (!delivery || !event) return 'ignored'
      if (event.kind === 'ping') return 'pong'
      if (!(await store.recordDelivery(tx, 'integration', delivery.id, delivery.event))) return 'duplicate'
      return applyEvent(deps, tx, event, { ...delivery, source: 'integration', traceparent })
    }
  }
}

/**
 * Receives deliveries for one app from any git host. The webhook URL contains the app's id; a name instead of the id
 * is accepted, too. With a name, the app is the one with that name whose secret signed the delivery. The response for
 * an unknown app is the same as for a wrong signature.
 */
export function receiveForApps(
  deps: ApplyDeps,
): (app: string, raw: Buffer, headers: Headers, traceparent: string) => ReturnType<Receive> {
  const slots = semaphore(namedAtOnce)
  const signer = async (app: string, raw: Buffer, proof: Proof): Promise<string | undefined> => {
    const verifies = ({ secret }: store.AppSecret) => isSigned(deps.vault.open('app.webhook', secret), raw, proof)
    const known = isUuid(app) ? await store.secretOf(deps.db, app) : undefined
    if (known) return (await verifies(known)) ? known.id : undefined
    const release = await slots.take()
    try {
      for (const one of await store.secrets(deps.db, app, mostCandidates(raw.length)))
        if (await verifies(one)) return one.id
      return undefined
    } finally {
      release()
    }
  }
  return async (app, raw, headers, traceparent) => {
    const proof = proofOf(headers)
    const id = proof && (await signer(app, raw, proof))
    if (id === undefined) throw refused()
    const delivery = describeDelivery(raw, headers)
    const event = delivery && parseEvent(delivery, raw)
    return async tx => {
      if (!delivery || !event) return 'ignored'
      if (event.kind === 'ping') return 'pong'
      if (!(await store.recordDelivery(tx, id, delivery.id, delivery.event))) return 'duplicate'
      return applyToApp(deps, tx, id, event, { ...delivery, source: id, traceparent })
    }
  }
}

/**
 * Maximum number of concurrent checks of deliveries that address the app by name. It is low, so that other work gets
 * threads of the pool.
 */
const namedAtOnce = 2
/** Maximum number of bytes to hash for a delivery that addresses the app by name: about 50 ms of one thread. */
const mostHashedBytes = 64 << 20

/**
 * Returns how many apps with the name are tried for a body of this size. The query alternates between accounts, so
 * that one account with many such apps cannot exclude those of others.
 */
export const mostCandidates = (bodyBytes: number) =>
  Math.min(1000, Math.floor(mostHashedBytes / Math.max(1, bodyBytes)))
