import { newId } from '../../lib/ids.ts'
import { minutes } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { invalidState, notFound } from '../http/errors.ts'
import { type Feature, type Handlers, type ProjectAccess, feature } from '../http/operation.ts'
import type { Sql } from '../../db/db.ts'
import { rulesOf } from './apply.ts'
import { type Catalogue, catalogueOf, productToSell, readCatalogue } from './catalogue.ts'
import { decide, grants } from './decide.ts'
import { createProvider } from './providers.ts'
import type { BillingProvider } from './provider.ts'
import { requireAllowed } from './redirect.ts'
import { sandboxHandlers } from './sandbox/routes.ts'
import { billingOperations } from './schema.ts'
import * as store from './store.ts'
import { type SummaryParts, viewProducts, viewSummary } from './view.ts'

type Parts = Pick<Deps, 'db' | 'config' | 'clock'> & { readonly provider: BillingProvider | undefined }

export function billingFeature(deps: Deps): Feature {
  const parts: Parts = { ...deps, provider: createProvider(deps) }
  return feature(billingOperations, {
    ...reading(parts),
    ...buying(parts),
    ...sandboxHandlers(deps),
  } satisfies Handlers<typeof billingOperations>)
}

/** Price list of an installation without a billing provider: it is empty, and all projects have the configured plan. */
const nothing: Catalogue = { products: [], defaultProduct: undefined, planOf: () => undefined }
const catalogueIn = async (sql: Sql, { provider, config }: Parts) =>
  provider ? readCatalogue(sql, provider.name, config.billing) : nothing
const subscriptionsIn = async (sql: Sql, { provider }: Parts, projectId: string) =>
  provider ? store.subscriptionsOf(sql, provider.name, projectId) : []

async function summary(parts: Parts, sql: Sql, project: ProjectAccess) {
  const catalogue = await catalogueIn(sql, parts)
  const subscriptions = await subscriptionsIn(sql, parts, project.id)
  const plan = await store.planOfProject(sql, project.id)
  if (plan === undefined) throw notFound()
  const { shown } = decide(subscriptions, parts.clock.now(), rulesOf(parts, catalogue.planOf))
  const account = await store.accountOf(sql, project.id)
  const isTestMode = parts.provider?.isTestMode ?? false
  return viewSummary({ project, plan, account, shown, catalogue, isTestMode } satisfies SummaryParts)
}

const reading = (parts: Parts) =>
  ({
    getBilling: { read: ({ project }) => summary(parts, parts.db, project) },
    listBillingProducts: {
      read: async () => {
        const catalogue = await catalogueIn(parts.db, parts)
        const synced = parts.provider && (await store.catalogueOf(parts.db, parts.provider.name))
        return viewProducts(catalogue, synced?.lastSyncedAt ?? null)
      },
    },
    refreshBillingProducts: {
      write: async ({ audit }) => {
        const products = (await parts.provider?.products()) ?? []
        const now = parts.clock.now()
        return async tx => {
          audit({
            action: 'billing.products_refreshed',
            resourceType: 'billing',
            details: { products: products.length },
          })
          if (!parts.provider) return viewProducts(nothing, null)
          const { name } = parts.provider
          await store.replaceProducts(tx, name, products, now)
          return viewProducts(catalogueOf(await store.productsOf(tx, name), parts.config.billing), now)
        }
      },
    },
    chooseCheckoutProduct: {
      write:
        async ({ project, body, audit }) =>
        async tx => {
          const productId = body.product_id ?? null
          if (productId !== null) productToSell(await catalogueIn(tx, parts), productId)
          await store.selectProduct(tx, project.id, productId)
          const details = { product_id: productId }
          audit({ action: 'billing.product_chosen', resourceType: 'billing', resourceId: project.id, details })
          return summary(parts, tx, project)
        },
    },
  }) satisfies Handlers<typeof billingOperations>

const buying = (parts: Parts) =>
  ({
    createCheckout: {
      write: async ({ project, body, caller, audit }) => {
        const provider = requireProvider(parts.provider)
        const product = await productOfCheckout(parts, project.id, body.product_id ?? null)
        await requireNoSubscription(parts, project.id)
        const customerId = (await store.accountOf(parts.db, project.id))?.customerId ?? null
        // A check of the subscription is scheduled before the provider is called, in case the provider's response is
        // lost.
        const now = parts.clock.now()
        await store.noteCheckout(parts.db, project.id, now, new Date(now.getTime() + minutes(5)))
        const returnUrl = returnUrlOf(parts)
        const request = { projectId: project.id, customerId, product, email: caller.email, returnUrl, key: newId() }
        const url = requireAllowed(await provider.checkout(request), hostsOf(parts, provider))
        return async () => {
          const details = { product_id: product.id }
          audit({ action: 'billing.checkout_opened', resourceType: 'billing', resourceId: project.id, details })
          return { url }
        }
      },
    },
    openBillingPortal: {
      write: async ({ project, audit }) => {
        const provider = requireProvider(parts.provider)
        const subscriptions = await subscriptionsIn(parts.db, parts, project.id)
        const account = await store.accountOf(parts.db, project.id)
        const customerId = subscriptions.at(-1)?.customerId ?? account?.customerId ?? null
        if (customerId === null) throw invalidState('There is nothing to manage before the first checkout.')
        const page = await provider.portal({ projectId: project.id, customerId, returnUrl: returnUrlOf(parts) })
        if (page === undefined) throw invalidState('The billing provider does not know this project yet.')
        const url = requireAllowed(page, hostsOf(parts, provider))
        return async () => {
          audit({ action: 'billing.portal_opened', resourceType: 'billing', resourceId: project.id })
          return { url }
        }
      },
    },
  }) satisfies Handlers<typeof billingOperations>

function requireProvider(provider: BillingProvider | undefined): BillingProvider {
  if (provider) return provider
  throw invalidState('No billing provider is configured (MOTE_BILLING_PROVIDER), so there is nothing to buy.')
}

async function productOfCheckout(parts: Parts, projectId: string, desiredFor: string | null) {
  const catalogue = await catalogueIn(parts.db, parts)
  if (desiredFor !== null) return productToSell(catalogue, desiredFor)
  const selectedId = (await store.accountOf(parts.db, projectId))?.selectedProductId
  const selected = catalogue.products.find(p => p.id === selectedId && !p.isArchived)
  const product = selected ?? catalogue.defaultProduct
  if (!product) throw invalidState('No product is for sale yet. An administrator must refresh the products first.')
  return product
}

/**
 * Refuses a checkout while the project has a subscription: a second one would be charged in addition. Users change the
 * plan of the existing subscription in the portal.
 * @throws ApiError 409
 */
async function requireNoSubscription(parts: Parts, projectId: string): Promise<void> {
  const now = parts.clock.now()
  const { graceMs } = rulesOf(parts, () => undefined)
  const subscriptions = await subscriptionsIn(parts.db, parts, projectId)
  if (subscriptions.some(s => grants(s, now, graceMs)))
    throw invalidState('The project already has a subscription. Change it in the billing portal.')
}

const returnUrlOf = ({ config }: Parts) => `${config.publicUrl}/billing`
const hostsOf = ({ config }: Parts, provider: BillingProvider) => [
  ...provider.pageHosts,
  ...config.billing.redirectHosts,
]
