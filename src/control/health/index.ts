export { type HealthOptions, healthFeature } from './routes.ts'
