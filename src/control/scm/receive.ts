/** A delivery of a git host: signature over the raw bytes first, de-duplication second, effect third. */
import type { Tx } from '../../db/db.ts'
import { notFound, unauthenticated } from '../http/errors.ts'
import { type ApplyDeps, type Effect, applyEvent, applyToApp } from './apply.ts'
import { parseEvent } from './events.ts'
import type { SourceHost } from './provider.ts'
import { describeDelivery, type Headers, isSigned } from './signature.ts'
import * as store from './store.ts'

export type Received = Effect | 'duplicate' | 'pong'

/** @returns what remains to be done in one transaction @throws ApiError 401 */
export type Receive = (raw: Buffer, headers: Headers, traceparent: string) => Promise<(tx: Tx) => Promise<Received>>

const refused = () => unauthenticated('The signature is missing or wrong.')

/** Of the integration. @throws ApiError 404 where there is none */
export function receiveFromHost(deps: ApplyDeps, host: SourceHost | undefined): Receive {
  return async (raw, headers, traceparent) => {
    if (!host) throw notFound()
    const signature = headers['x-hub-signature-256']
    if (typeof signature !== 'string' || !(await host.isSigned(raw, signature))) throw refused()
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

/** Of any git host, for the app of that name whose secret signed it. An unknown name and a wrong secret look alike. */
export function receiveForApp(deps: ApplyDeps, appName: string): Receive {
  return async (raw, headers, traceparent) => {
    const apps = await store.secrets(deps.db, appName)
    const app = apps.find(({ secret }) => isSigned(deps.vault.open('app.webhook', secret), raw, headers))
    if (!app) throw refused()
    const delivery = describeDelivery(raw, headers)
    const event = delivery && parseEvent(delivery, raw)
    return async tx => {
      if (!delivery || !event) return 'ignored'
      if (event.kind === 'ping') return 'pong'
      if (!(await store.recordDelivery(tx, app.id, delivery.id, delivery.event))) return 'duplicate'
      return applyToApp(deps, tx, app.id, event, { ...delivery, source: app.id, traceparent })
    }
  }
}
