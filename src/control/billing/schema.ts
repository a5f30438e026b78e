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
          'Product from `GET /v1/billing/products` that is not archived. In a checkout, null means the chosen or else the default product; when choosing, null means the default product.',
        examples: ['prod_pro'],
      }),
    ),
  },
  { description: 'Product to buy.' },
)

const shared = { tag: 'Billing', auth: 'bearer', project: 'selected' } as const

/** Anyone with the link can open the sandbox's pages, as with real providers. */
const sandboxPage = {
  tag: 'Billing',
  auth: 'none',
  scope: 'read',
  project: 'none',
  query: Type.Object({
    session: text({
      maxLength: 100,
      description: 'Random id in the link that a checkout or portal request returned. Valid for a day.',
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
      'Returns the plan of the project, what it allows, and the subscription that pays for it. Without a billing provider every project has the plan that the installation is configured with. The provider is not asked: the state is the one it last reported.',
    ...shared,
    scope: 'read',
    answer: BillingSummary,
  },
  listBillingProducts: {
    method: 'GET',
    path: '/v1/billing/products',
    summary: 'List products',
    description:
      'Lists what a project can subscribe to, as last read from the billing provider. Needs no credential, so that a price list can show it.',
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
      'Reads the products from the billing provider now; this otherwise happens every hour and after the provider reports a change. Products that the provider no longer has are archived. Only for administrators.',
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
      'Stores which product the next checkout of the project sells, and changes no subscription. The answer is 400 for an unknown product and 409 for an archived one.',
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
      'Returns a page of the billing provider on which a subscription for the project is paid. The plan changes once the provider reports the payment, usually within seconds. The answer is 409 if the project already has a subscription, which is changed in the portal, or if nothing is for sale.',
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
      'Returns a page of the billing provider on which the subscription, payment methods and invoices of the project are managed. The answer is 409 before the first checkout.',
    ...shared,
    scope: 'admin',
    answer: Redirect,
  },
  sandboxCheckoutPage: {
    method: 'GET',
    path: '/v1/billing/sandbox/checkout',
    summary: 'Show the sandbox checkout',
    description:
      'HTML page on which a checkout of the billing sandbox is paid, without money. Only where the sandbox is the billing provider, else 404.',
    ...sandboxPage,
  },
  paySandboxCheckout: {
    method: 'POST',
    path: '/v1/billing/sandbox/checkout',
    summary: 'Pay a sandbox checkout',
    description:
      'Takes the form of the checkout page (`action=pay`) and starts the subscription. A checkout is paid once; repeating the request changes nothing.',
    ...sandboxPage,
    rawBody: true,
    bodyRequired: true,
  },
  sandboxPortalPage: {
    method: 'GET',
    path: '/v1/billing/sandbox/portal',
    summary: 'Show the sandbox portal',
    description:
      'HTML page on which the subscriptions of a project in the billing sandbox are managed. Only where the sandbox is the billing provider, else 404.',
    ...sandboxPage,
  },
  changeInSandboxPortal: {
    method: 'POST',
    path: '/v1/billing/sandbox/portal',
    summary: 'Change a sandbox subscription',
    description:
      'Takes the form of the portal page: `action` is `cancel`, `resume`, `fail`, `pay` or `next`, a space, and the id of the subscription. `fail` starts a period that is not paid, `pay` settles it, `next` starts the next period now.',
    ...sandboxPage,
    rawBody: true,
    bodyRequired: true,
  },
})
