/** The price list: the products on sale, as last read from the provider. */
import type { Sql } from '../../db/db.ts'
import type { ControlConfig } from '../base/config.ts'
import { invalidField, invalidState } from '../http/errors.ts'
import { type Plan, isPlan } from '../projects/index.ts'
import { productsOf } from './store.ts'
import type { Product } from './provider.ts'

export interface Catalogue {
  readonly products: readonly Product[]
  readonly defaultProduct: Product | undefined
  readonly planOf: (productId: string) => Plan | undefined
}

type Settings = Pick<ControlConfig['billing'], 'plans' | 'defaultProduct'>

export async function readCatalogue(sql: Sql, provider: string, settings: Settings): Promise<Catalogue> {
  return catalogueOf(await productsOf(sql, provider), settings)
}

/** Builds the price list. @param products sorted by price, the cheapest first */
export function catalogueOf(products: readonly Product[], settings: Settings): Catalogue {
  const planOf = (productId: string) => {
    const plan = settings.plans.get(productId) ?? products.find(p => p.id === productId)?.plan ?? ''
    return isPlan(plan) ? plan : undefined
  }
  const sold = products.filter(p => !p.isArchived)
  const chosen = sold.find(p => p.id === settings.defaultProduct)
  return { products, planOf, defaultProduct: chosen ?? sold.find(p => planOf(p.id) !== undefined) }
}

/** Returns the product to sell. @throws ApiError 400 if unknown, 409 if archived */
export function productToSell({ products }: Catalogue, id: string): Product {
  const product = products.find(p => p.id === id)
  if (!product) throw invalidField('product_id', 'is not the id of a product in GET /v1/billing/products')
  if (product.isArchived) throw invalidState(`"${product.name}" is no longer sold. Choose another product.`)
  return product
}
