import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { maybe, resource, text } from '../http/types.ts'
import { BillingProductList, BillingSummary, Redirect } from './resources.ts'

const ProductChoice = resource(
  'ProductChoice',
  {
    product_id: maybe(
      text({
        maxLength: 200,
        description:
          'Id of a product from `GET /v1/billing/products` that is not archived. For a checkout, null means the chosen product, or else the default product. For the choice of the checkout product, null means the default product.',
        examples: ['prod_pro'],
      }),
    ),
  },
  { description: 'Product to buy.' },
)

const shared = { tag: 'Billing', auth: 'bearer', project: 'selected' } as const

/**
 * The sandbox's checkout and portal pages have no authentication: as with real providers, anyone with the link can open
 * them.
 */
const sandboxPage = {
  tag: 'Billing',
  auth: 'none',
  scope: 'read',
  project: 'none',
  query: Type.Object({
    session: text({
      maxLength: 100,
      description: 'Random id from the link that a checkout or portal request returned; valid for one day.',
      examples: ['Wm8kZ1xT7uYb5nR2wLdE9aHfGjS6pIoKqXsBc3vQ0Jt'],
    }),
  }),
  answer: 'html',
  fails: [404],
  forms: true,
  proof: 'random id of the session in the link',
  addition: true,
} as const

export const billingOperations = operations({
  getBilling: {
    method: 'GET',
    path: '/v1/billing',
    summary: 'Get the billing summary',
    description:
      'Returns the plan of the project, its limits, and the subscription that pays for it. Without a billing provider, every project has the default plan of the installation. The request does not query the provider; it returns the state that the provider last reported.',
    ...shared,
    scope: 'read',
    answer: BillingSummary,
  },
  listBillingProducts: {
    method: 'GET',
    path: '/v1/billing/products',
    summary: 'List products',
    description:
      'Lists the products that a project can subscribe to, as last read from the billing provider. Needs no credential, so that a public price list can use it.',
    tag: 'Billing',
    auth: 'none',
    proof: 'none: public',
    scope: 'read',
    project: 'none',
    answer: BillingProductList,
  },
  refreshBillingProducts: {
    method: 'POST',
    path: '/v1/billing/products/refresh',
    summary: 'Refresh products',
    description:
      'Reads the products from the billing provider now; this otherwise happens every hour and after the provider reports a change. Products that no longer exist at the provider are archived. Only for administrators.',
    tag: 'Billing',
    auth: 'bearer',
    project: 'none',
    scope: 'admin',
    adminOnly: true,
    answer: BillingProductList,
  },
  chooseCheckoutProduct: {
    method: 'PUT',
    path: '/v1/billing/checkout-product',
    summary: 'Choose the checkout product',
    description:
      'Stores which product the next checkout of the project sells. It does not change a subscription. Responds with 400 for an unknown product and with 409 for an archived one.',
    ...shared,
    scope: 'admin',
    body: ProductChoice,
    bodyRequired: true,
    fails: [409],
    answer: BillingSummary,
  },
  createCheckout: {
    method: 'POST',
    path: '/v1/billing/checkout',
    summary: 'Start a checkout',
    description:
      'Returns the URL of a page of the billing provider, on which the user pays for a subscription of the project. The plan changes once the provider reports the payment, usually within seconds. Responds with 409 if no product is for sale, or if the project already has a subscription; change that in the billing portal.',
    ...shared,
    scope: 'admin',
    body: ProductChoice,
    bodyRequired: true,
    answer: Redirect,
  },
  openBillingPortal: {
    method: 'POST',
    path: '/v1/billing/portal',
    summary: 'Open the billing portal',
    description:
      'Returns the URL of a page of the billing provider, on which the user manages the subscription, payment methods and invoices of the project. Responds with 409 before the first checkout.',
    ...shared,
    scope: 'admin',
    answer: Redirect,
  },
  sandboxCheckoutPage: {
    method: 'GET',
    path: '/v1/billing/sandbox/checkout',
    summary: 'Show the sandbox checkout',
    description:
      'Returns the HTML page on which a checkout of the billing sandbox is paid, without real money. Responds with 404 if the sandbox is not the billing provider.',
    ...sandboxPage,
  },
  paySandboxCheckout: {
    method: 'POST',
    path: '/v1/billing/sandbox/checkout',
    summary: 'Pay a sandbox checkout',
    description:
      'Receives the form of the checkout page (`action=pay`) and starts the subscription. Repeating the request for a paid checkout changes nothing.',
    ...sandboxPage,
    rawBody: true,
    bodyRequired: true,
  },
  sandboxPortalPage: {
    method: 'GET',
    path: '/v1/billing/sandbox/portal',
    summary: 'Show the sandbox portal',
    description:
      'Returns the HTML page on which the subscriptions of a project in the billing sandbox are managed. Responds with 404 if the sandbox is not the billing provider.',
    ...sandboxPage,
  },
  changeInSandboxPortal: {
    method: 'POST',
    path: '/v1/billing/sandbox/portal',
    summary: 'Change a sandbox subscription',
    description:
      'Receives the form of the portal page. `action` is a verb, a space, and the id of the subscription. `cancel` ends the subscription with its current period, `resume` undoes that, `fail` starts a period whose payment fails, `pay` settles it, and `next` starts the next period now.',
    ...sandboxPage,
    rawBody: true,
    bodyRequired: true,
  },
})
