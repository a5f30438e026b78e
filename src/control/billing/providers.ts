import type { Deps } from '../base/deps.ts'
import { createGuard } from '../http/guard.ts'
import { polarProvider } from './polar.ts'
import type { BillingProvider } from './provider.ts'
import { sandboxProvider } from './sandbox/provider.ts'
import { stripeProvider } from './stripe.ts'

export type ProviderDeps = Pick<Deps, 'db' | 'config' | 'clock' | 'vault'>

/** Creates the configured billing provider, with its own circuit breaker; undefined if none is configured. */
export function createProvider(deps: ProviderDeps): BillingProvider | undefined {
  const { provider, apiKey, apiUrl, webhookSecrets } = deps.config.billing
  const guard = createGuard(deps.clock)
  switch (provider) {
    case 'none':
      return undefined
    case 'sandbox':
      return sandboxProvider(deps)
    case 'polar':
      return polarProvider({ accessToken: apiKey, apiUrl, webhookSecrets, guard })
    case 'stripe':
      return stripeProvider({ apiKey, apiUrl, webhookSecrets, guard })
  }
}
