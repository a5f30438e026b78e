/** A complete billing provider without external services: for demos, development and tests. */
import { randomBytes } from 'node:crypto'
import type { Tx } from '../../../db/db.ts'
import { hours } from '../../../lib/duration.ts'
import { newId } from '../../../lib/ids.ts'
import type { Vault } from '../../../lib/vault.ts'
import type { Deps } from '../../base/deps.ts'
import { parseObject } from '../json.ts'
import * as format from '../polar-format.ts'
import type { BillingProvider } from '../provider.ts'
import { verify } from '../signature.ts'
import { customerIdOf, ended, sandboxProducts, wireSubscription } from './life.ts'
import * as store from './store.ts'

const purpose = 'billing.sandbox'
const sessionLifeMs = hours(24)

/** Signing keys of the sandbox's webhooks, the current one first. */
export const sandboxKeys = (vault: Vault) => vault.signingKeys(purpose).map(({ key }) => key)
export const sessionHash = (vault: Vault, session: string) => vault.hash(purpose, session)

export type SandboxDeps = Pick<Deps, 'db' | 'config' | 'clock' | 'vault'>

export function sandboxProvider({ db, config, clock, vault }: SandboxDeps): BillingProvider {
  async function page(kind: store.Session['kind'], projectId: string, productId: string | null): Promise<string> {
    const session = randomBytes(32).toString('base64url')
    const expiresAt = new Date(clock.now().getTime() + sessionLifeMs)
    await store.putSession(db, { hash: sessionHash(vault, session), kind, projectId, productId, expiresAt })
    return `${config.publicUrl}/v1/billing/sandbox/${kind}?session=${session}`
  }
  return {
    name: 'sandbox',
    isTestMode: true,
    pageHosts: [new URL(config.publicUrl).host],
    async open(raw, headers, now) {
      const id = verify(sandboxKeys(vault), raw, headers, now)
      return { id, ...format.eventOf(parseObject(raw)) }
    },
    products: async () => sandboxProducts,
    checkout: ({ projectId, product }) => page('checkout', projectId, product.id),
    portal: async ({ projectId, customerId }) =>
      customerId === customerIdOf(projectId) ? page('portal', projectId, null) : undefined,
    subscriptionsOf: async projectId =>
      (await store.subscriptionsOf(db, projectId)).map(s => format.subscriptionOf(wireSubscription(s))),
    end: id =>
      db.tx(async tx => {
        const found = await store.lockSubscription(tx, id)
        const change = found && ended(found, clock.now())
        if (change) await save(tx, change.type, change.subscription)
      }),
  }
}

/** Stores the subscription's new state together with the event that reports it. */
export async function save(tx: Tx, type: string, subscription: store.SandboxSubscription): Promise<void> {
  await store.putSubscription(tx, subscription)
  const at = subscription.modifiedAt
  const body = JSON.stringify({ type, timestamp: at.toISOString(), data: wireSubscription(subscription) })
  await store.putEvent(tx, `evt_${newId()}`, body, at)
}
