/** Source hosts: the GitHub integration, webhooks of apps, and credentials for repositories. */
import type { Deps } from '../base/deps.ts'
import { githubHost, type SourceHost } from './provider.ts'

export { sourceAuth } from './auth.ts'
export { scmFeature } from './routes.ts'
export { scmWebhookFeature } from './webhook.ts'
export { scmReports, scmUpkeep } from './sweep.ts'
export type { SourceHost } from './provider.ts'

/** Creates the client of the source host; undefined if none is configured. */
export const createSourceHost = ({ config, clock }: Pick<Deps, 'config' | 'clock'>): SourceHost | undefined =>
  config.scm && githubHost(config.scm, clock)
