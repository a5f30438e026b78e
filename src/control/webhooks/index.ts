export { webhookFeature } from './routes.ts'
