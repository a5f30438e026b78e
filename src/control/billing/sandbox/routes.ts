import { newId } from '../../../lib/ids.ts'
import type { Deps } from '../../base/deps.ts'
import { invalidField, notFound } from '../../http/errors.ts'
import type { Handlers } from '../../http/operation.ts'
import type { billingOperations } from '../schema.ts'
import { deliverEvents } from './deliver.ts'
import { act, actions, periodMs, sandboxProducts } from './life.ts'
import { checkoutPage, portalPage } from './pages.ts'
import { sandboxProvider, save, sessionHash } from './provider.ts'
import * as store from './store.ts'

type SandboxDeps = Pick<Deps, 'db' | 'config' | 'clock' | 'vault' | 'log'>

/**
 * Handlers of the sandbox's checkout and portal pages. They need no sign-in: the session in the link, 256 random bits,
 * identifies the project.
 */
export function sandboxHandlers(deps: SandboxDeps) {
  const { db, clock, config, vault } = deps
  const backUrl = `${config.publicUrl}/billing`

  async function find(session: string, kind: store.Session['kind']) {
    if (config.billing.provider !== 'sandbox') throw notFound()
    const hash = sessionHash(vault, session)
    const found = await store.findSession(db, hash, kind, clock.now())
    if (!found) throw notFound()
    return { ...found, hash }
  }
  const productOf = ({ productId }: store.Session) => {
    const product = sandboxProducts.find(p => p.id === productId)
    if (!product) throw notFound()
    return product
  }
  /** Delivers webhooks right away. If a delivery fails, the page still works and the sweep retries the delivery. */
  const deliver = () =>
    deliverEvents({ ...deps, provider: sandboxProvider(deps) }).catch((err: unknown) =>
      deps.log.warn({ err }, 'an event of the billing sandbox was not delivered; the sweep will retry'),
    )

  return {
    sandboxCheckoutPage: {
      read: async ({ query }) => {
        const session = await find(query.session, 'checkout')
        return checkoutPage(productOf(session), session.usedAt !== null, backUrl)
      },
    },
    paySandboxCheckout: {
      read: async ({ query, body }) => {
        const session = await find(query.session, 'checkout')
        const product = productOf(session)
        if (actionIn(body) !== 'pay') throw invalidField('action', 'must be pay')
        const now = clock.now()
        await db.tx(async tx => {
          if (!(await store.useSession(tx, session.hash, now))) return
          await save(tx, 'subscription.created', {
            id: `sandbox_sub_${newId()}`,
            projectId: session.projectId,
            productId: product.id,
            status: 'active',
            pays: true,
            periodStart: now,
            periodEnd: new Date(now.getTime() + periodMs),
            cancelAtPeriodEnd: false,
            modifiedAt: now,
          })
        })
        await deliver()
        return checkoutPage(product, true, backUrl)
      },
    },
    sandboxPortalPage: {
      read: async ({ query }) => {
        const { projectId } = await find(query.session, 'portal')
        return portalPage(await store.subscriptionsOf(db, projectId), sandboxProducts, backUrl)
      },
    },
    changeInSandboxPortal: {
      read: async ({ query, body }) => {
        const { projectId } = await find(query.session, 'portal')
        const [desiredFor, id = ''] = actionIn(body).split(' ')
        const action = actions.find(name => name === desiredFor)
        if (!action) throw invalidField('action', `must be one of ${actions.join(', ')}, and a subscription`)
        await db.tx(async tx => {
          const subscription = await store.lockSubscription(tx, id)
          if (subscription?.projectId !== projectId) throw notFound()
          const change = act(subscription, action, clock.now())
          if (change) await save(tx, change.type, change.subscription)
        })
        await deliver()
        return portalPage(await store.subscriptionsOf(db, projectId), sandboxProducts, backUrl)
      },
    },
  } satisfies Handlers<typeof billingOperations>
}

const actionIn = (body: Buffer) =>
  (new URLSearchParams(body.subarray(0, 1000).toString('utf8')).get('action') ?? '').replaceAll('\0', '')
