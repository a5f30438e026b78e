/** Receives a webhook delivery: verifies the signature, ignores duplicates, and applies the event. */
import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { ApiError, notFound, unauthenticated } from '../http/errors.ts'
import { applyEvent } from './apply.ts'
import { BadEvent, BadSignature, type BillingProvider, type Delivery, type DeliveryHeaders } from './provider.ts'
import { recordDelivery } from './store.ts'

export type ReceiveDeps = Pick<Deps, 'config' | 'clock' | 'log'> & { readonly provider: BillingProvider | undefined }

/** Maximum body size. Providers send at most several ten KiB. */
const maxBytes = 1 << 20

export type Received = 'applied' | 'ignored' | 'duplicate'

/**
 * Verifies and parses a delivery.
 * @returns the rest of the work, to be run in one transaction that stores the delivery's id together with its effect
 * @throws ApiError 401: invalid signature, 404: no provider, 413
 */
export async function receive(
  deps: ReceiveDeps,
  raw: Buffer,
  headers: DeliveryHeaders,
): Promise<(tx: Tx) => Promise<Received>> {
  const { provider, clock } = deps
  if (!provider) throw notFound()
  if (raw.length > maxBytes) throw new ApiError('payload_too_large', 'A billing event has at most 1 MiB.')
  const now = clock.now()
  const delivery = await opened(deps, provider, raw, headers, now)
  return async tx => {
    if (!delivery) return 'ignored'
    if (!(await recordDelivery(tx, provider.name, delivery.id, delivery.type, now))) return 'duplicate'
    return applyEvent({ config: deps.config, provider }, tx, delivery.event, now)
  }
}

/**
 * Returns the delivery; undefined for a signed body that is not a valid event. An error response would only make the
 * provider repeat it.
 */
async function opened(
  { log }: Pick<Deps, 'log'>,
  provider: BillingProvider,
  raw: Buffer,
  headers: DeliveryHeaders,
  now: Date,
): Promise<Delivery | undefined> {
  try {
    return await provider.open(raw, headers, now)
  } catch (cause) {
    if (cause instanceof BadSignature) throw unauthenticated('The signature is missing or invalid.')
    if (!(cause instanceof BadEvent)) throw cause
    log.warn({ provider: provider.name, err: cause.message }, 'a signed billing event could not be parsed')
    return undefined
  }
}
