/** Image registries: credentials of projects for other registries, and tokens for the installation's own registry. */
export { startRegistryLogins } from './login-receiver.ts'
export { registryFeature } from './routes.ts'
export { type RegistryTrust, registryTrust, tokenIssuer, tokenService } from './token.ts'
