/** Image registries: the credentials of projects. */
export { startRegistryLogins } from './login-receiver.ts'
export { registryFeature } from './routes.ts'
