import type { Static } from 'typebox'
import type { ControlConfig } from '../base/config.ts'
import { type BuildSettings, noBuildSettings } from '../builds/index.ts'
import type { App as AppShape } from './schema.ts'
import type { App } from './store.ts'

type Gateway = Pick<ControlConfig, 'gatewayUrl'>

/** The result of the last call of `around`: a process has one gateway URL, and parsing it costs 10 us for each app. */
let parsed: { readonly gatewayUrl: string; readonly parts: readonly [string, string] } | undefined

/** Returns the parts of an app's URL before and after its hostname: the scheme, and the gateway's port. */
export function around(gatewayUrl: string): readonly [string, string] {
  if (parsed?.gatewayUrl !== gatewayUrl) {
    const { protocol, port } = new URL(gatewayUrl)
    parsed = { gatewayUrl, parts: [`${protocol}//`, port ? `:${port}` : ''] }
  }
  return parsed.parts
}

const buildView = ({ dockerfile, args, env, secrets }: BuildSettings) => ({
  dockerfile,
  args,
  env: [...env],
  secrets: [...secrets],
})

/** Converts an app to the API's format. The webhook secret is not included: only the operation `/secret` returns it. */
export const appView = (app: App, { gatewayUrl }: Gateway): Static<typeof AppShape> => ({
  id: app.id,
  name: app.name,
  git_url: app.gitUrl,
  git_branch: app.gitBranch,
  git_submodules: app.gitSubmodules,
  port: app.port,
  kind: app.kind,
  env_of: app.envOf,
  command: [...app.command],
  arguments: [...app.arguments],
  stack: app.stack,
  health_check_path: app.healthCheckPath,
  release_command: app.releaseCommand === null ? null : [...app.releaseCommand],
  drain_timeout: app.drainTimeout,
  canary: app.canary,
  strategy: app.strategy,
  hosts: app.hosts
    ? { require: { ...app.hosts.require }, prefer: { ...app.hosts.prefer } }
    : { require: {}, prefer: {} },
  restart: app.restart ?? { policy: 'always', max_restarts: null },
  build: buildView(app.build ?? noBuildSettings),
  desired_replicas: app.desiredReplicas,
  min_replicas: app.minReplicas,
  max_replicas: app.maxReplicas,
  autoscaling_enabled: app.autoscalingEnabled,
  cpu_threshold: app.cpuThreshold,
  mem_threshold: app.memThreshold,
  scale_state: app.scaleState,
  created_at: app.createdAt.toISOString(),
  settings_changed_at: app.settingsChangedAt?.toISOString() ?? null,
  active_deployment_id: app.activeDeploymentId,
  failure: app.failure,
  hostname: app.kind === 'web' ? app.hostname : null,
  url: app.kind === 'web' ? around(gatewayUrl).join(app.hostname) : null,
  scm_installation_id: app.scmInstallationId,
  scm_repo_full_name: app.scmRepoFullName,
  scm_repo_id: app.scmRepoId,
  scm_webhook_secret: null,
})
