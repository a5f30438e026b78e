/** Health of the control plane and of its dependencies. */
export { type HealthOptions, healthFeature } from './routes.ts'
