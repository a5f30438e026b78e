export { type Authenticator, type CallerInProject, createAuthenticator } from './authenticate.ts'
export { createIdempotencyStore } from './idempotency.ts'
export { authFeature } from './routes.ts'
export { expiredCredentials } from './sweep.ts'
