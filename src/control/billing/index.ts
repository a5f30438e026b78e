/** Plans, subscriptions, and the providers that process payments. */
export { billingFeature } from './routes.ts'
export { billingPlans, billingSync } from './sweep.ts'
export { billingWebhookFeature } from './webhook.ts'
