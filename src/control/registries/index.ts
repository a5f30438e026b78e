/** Image registries: the credentials of projects, and the tokens of the installation's own registry. */
export { startRegistryLogins } from './login-receiver.ts'
export { registryFeature } from './routes.ts'
export { type RegistryTrust, registryTrust, tokenIssuer, tokenService } from './token.ts'
