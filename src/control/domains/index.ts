/** Custom domains of apps: DNS verification and certificates. */
export { createIssuer } from './acme.ts'
export { startCertificateServer } from './certificate-bus.ts'
export { certificates } from './certificate-sweep.ts'
export { createResolver } from './resolver.ts'
export { domainFeature } from './routes.ts'
export { domainChecks } from './sweep.ts'
