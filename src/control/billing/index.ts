/** Plans, subscriptions and the providers that collect the money. */
export { billingFeature } from './routes.ts'
export { billingPlans, billingSync } from './sweep.ts'
export { billingWebhookFeature } from './webhook.ts'
