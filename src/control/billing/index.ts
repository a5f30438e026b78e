export { createProvider } from './providers.ts'
export { type Received, receive } from './receive.ts'
export { billingFeature } from './routes.ts'
export { billingPlans, billingSync } from './sweep.ts'
