export { createResolver } from './resolver.ts'
export { domainFeature } from './routes.ts'
export { domainChecks } from './sweep.ts'
