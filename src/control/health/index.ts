export { type HealthOptions, healthFeature } from './routes.ts'
export { productVersion } from './rules.ts'
