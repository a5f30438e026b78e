/** Receives a webhook delivery: verifies the signature, ignores duplicates, and applies the event. */
import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { ApiError, notFound, unauthenticated } from '../http/errors.ts'
import { applyEvent } from './apply.ts'
import { BadEvent, BadSignature, type BillingProvider, type Delivery, type DeliveryHeaders } from './provider.ts'
import { recordDelivery } from './store.ts'

export type ReceiveDeps = Pick<Deps, 'config' | 'clock' | 'log'> & { readonly provider: BillingProvider | undefined }

/** Maximum size of a webhook's body. Providers send at most a few tens of KiB. */
const maxBytes = 1 << 20

export type Received = 'applied' | 'ignored' | 'duplicate'

/**
 * Verifies and parses a webhook delivery.
 * @returns a function that applies the event, to be run in one transaction that also stores the delivery's id
 * @throws ApiError 401: invalid signature, 404: no provider, 413: body too large
 */
export async function receive(
  deps: ReceiveDeps,
  raw: Buffer,
  headers: DeliveryHeaders,
): Promise<(tx: Tx) => Promise<Received>> {
  const { provider, clock } = deps
  if (!provider) throw notFound()
  if (raw.length > maxBytes) throw new ApiError('payload_too_large', 'The billing event exceeds the limit of 1 MiB.')
  const now = clock.now()
  const delivery = await opened(deps, provider, raw, headers, now)
  return async tx => {
    if (!delivery) return 'ignored'
    if (!(await recordDelivery(tx, provider.name, delivery.id, delivery.type, now))) return 'duplicate'
    return applyEvent({ config: deps.config, provider }, tx, delivery.event, now)
  }
}

/**
 * Returns the delivery; undefined if its signature is valid but its body is not. The response is not an error, because
 * the provider would only repeat the delivery.
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
