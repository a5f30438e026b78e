import { randomBytes } from 'node:crypto'
import { uniqueViolation } from '../../db/errors.ts'
import type { Tx } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { type BuildSettingsRequest, buildSettingsOf } from '../builds/index.ts'
import type { Strategy } from '../deployments/index.ts'
import { invalidField, nameTaken } from '../http/errors.ts'
import type { ProjectAccess } from '../http/operation.ts'
import { assertAllowed, assertWithin, lockLimits } from '../projects/index.ts'
import { put as putEnv } from './env-store.ts'
import { type HostsRequest, hostsOf } from './host-settings.ts'
import * as rules from './rules.ts'
import * as store from './store.ts'

export interface AppRequest {
  readonly name: string
  readonly git_url?: string | null
  readonly git_branch?: string | null
  readonly git_submodules?: boolean | null
  readonly port?: number | null
  readonly kind?: 'web' | 'worker' | null
  readonly env_of?: string | null
  readonly command?: readonly string[] | null
  readonly arguments?: readonly string[] | null
  readonly stack?: string | null
  readonly health_check_path?: string | null
  readonly release_command?: readonly string[] | null
  readonly drain_timeout?: number | null
  readonly canary?: rules.CanaryRequest | null
  readonly strategy?: Strategy | null
  readonly hosts?: HostsRequest | null
  readonly restart?: rules.RestartRequest | null
  readonly build?: BuildSettingsRequest | null
  readonly desired_replicas?: number | null
  readonly min_replicas?: number | null
  readonly max_replicas?: number | null
  readonly autoscaling_enabled?: boolean | null
  readonly cpu_threshold?: number | null
  readonly mem_threshold?: number | null
  readonly scm_installation_id?: number | null
  readonly scm_repo_full_name?: string | null
  readonly scm_repo_id?: number | null
}

/**
 * Returns the number of replicas and the autoscaling settings that a request asks for. Omitted fields keep their value,
 * but the minimum and maximum follow the desired number.
 */
export function scaleOf(request: Omit<AppRequest, 'name'>, now: store.Scale & Pick<store.App, 'kind'>): store.Scale {
  const desiredReplicas = request.desired_replicas ?? now.desiredReplicas
  const scale = rules.checkScale({
    autoscalingEnabled: request.autoscaling_enabled ?? now.autoscalingEnabled,
    cpuThreshold: request.cpu_threshold ?? now.cpuThreshold,
    memThreshold: request.mem_threshold ?? now.memThreshold,
    desiredReplicas,
    minReplicas: request.min_replicas ?? Math.min(now.minReplicas, desiredReplicas),
    maxReplicas: request.max_replicas ?? Math.max(now.maxReplicas, desiredReplicas),
  })
  return rules.checkAwake(now.kind, scale)
}

const initialScale: store.Scale = {
  autoscalingEnabled: false,
  cpuThreshold: rules.defaults.cpuThreshold,
  memThreshold: rules.defaults.memThreshold,
  desiredReplicas: 1,
  minReplicas: 1,
  maxReplicas: 1,
}

/**
 * Checks the parts of the request that need no database, and returns a function that creates the app.
 * @throws ApiError 400 (field), 403 `plan_limit_exceeded`, 409 `name_taken`
 */
export function prepareApp(
  deps: Pick<Deps, 'vault' | 'config'>,
  project: Pick<ProjectAccess, 'id' | 'slug'>,
  request: AppRequest,
) {
  const name = rules.checkName(request.name)
  const kind = request.kind ?? 'web'
  const scale = scaleOf(request, { ...initialScale, kind })
  const app = {
    ...scale,
    id: newId(),
    projectId: project.id,
    name,
    gitUrl: rules.checkGitUrl(request.git_url ?? ''),
    gitBranch: rules.checkBranch(request.git_branch ?? ''),
    gitSubmodules: request.git_submodules ?? false,
    kind,
    envOf: rules.checkEnvOf(kind, request.env_of ?? null),
    command: rules.checkProgram(request.command ?? []),
    arguments: rules.checkArguments(request.arguments ?? []),
    stack: request.stack ?? null,
    port: rules.checkPort(request.port ?? rules.defaults.port),
    healthCheckPath: rules.checkHealthPath(request.health_check_path ?? rules.defaults.healthCheckPath),
    releaseCommand: rules.checkCommand(request.release_command ?? []),
    drainTimeout: rules.checkDrainTimeout(request.drain_timeout ?? rules.defaults.drainTimeout),
    canary: request.canary ? rules.checkCanary(kind, request.canary) : null,
    strategy: request.strategy ?? 'rolling',
    hosts: request.hosts ? hostsOf(request.hosts) : null,
    restart: request.restart ? rules.restartOf(request.restart) : null,
    build: request.build ? buildSettingsOf(request.build) : null,
    hostname: rules.hostnameOf(name, project.slug, deps.config.domain),
    scmInstallationId: request.scm_installation_id ?? null,
    scmRepoFullName: request.scm_repo_full_name ?? null,
    scmRepoId: request.scm_repo_id ?? null,
    scmWebhookSecret: deps.vault.seal('app.webhook', randomBytes(32).toString('base64url')),
    owner: 'user' as const,
    ownerId: null,
  }
  rules.assertOneStrategy(app)
  return async (tx: Tx): Promise<store.App> => {
    const limits = await lockLimits(tx, project.id)
    if (app.autoscalingEnabled) assertAllowed(limits, 'autoscalingAllowed')
    // The statements that count and insert apps are pipelined, which saves a round trip while the project is locked.
    // They run in this order, and the transaction is rolled back if the plan allows no further app.
    const [before, made] = await Promise.allSettled([store.count(tx, project.id), store.insert(tx, app)])
    if (before.status === 'rejected') throw before.reason
    assertWithin(limits, 'maxApps', before.value)
    if (made.status === 'fulfilled') {
      if (made.value.envOf !== app.envOf) throw invalidField('env_of', 'must be a web app of the project')
      return made.value
    }
    const cause: unknown = made.reason
    if (uniqueViolation(cause, 'app_name') || uniqueViolation(cause, 'app_hostname')) throw nameTaken('app', name)
    throw cause
  }
}

export interface SystemApp {
  readonly projectId: string
  /** Kind of the workflow that owns the app. The owner is poked when the app changes. */
  readonly owner: 'database'
  readonly ownerId: string
  readonly port: number
  readonly env: Readonly<Record<string, string>>
}

/**
 * Creates an app of the platform: one replica, a port without a health check path, and a hostname that gateways do not
 * serve. Its name contains two dashes, so that users cannot address it. It does not count as an app of the project, and
 * its owner deploys it.
 */
export async function createSystemApp(deps: Pick<Deps, 'vault'>, tx: Tx, app: SystemApp): Promise<store.App> {
  const name = `${app.owner}--${app.ownerId}`
  const made = await store.insert(tx, {
    ...initialScale,
    id: newId(),
    projectId: app.projectId,
    name,
    gitUrl: '',
    gitBranch: '',
    gitSubmodules: false,
    port: app.port,
    kind: 'web',
    envOf: null,
    command: [],
    arguments: [],
    stack: null,
    healthCheckPath: '',
    releaseCommand: null,
    drainTimeout: 0,
    canary: null,
    strategy: 'rolling',
    hosts: null,
    restart: null,
    build: null,
    hostname: `${name}.invalid`,
    scmInstallationId: null,
    scmRepoFullName: null,
    scmRepoId: null,
    scmWebhookSecret: deps.vault.seal('app.webhook', randomBytes(32).toString('base64url')),
    owner: app.owner,
    ownerId: app.ownerId,
  })
  await setSystemEnv(deps, tx, made.id, app.env)
  return made
}

/** Sets variables of the app, which its VMs get with the next deployment. */
export async function setSystemEnv(
  deps: Pick<Deps, 'vault'>,
  tx: Tx,
  appId: string,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  for (const [name, value] of Object.entries(env))
    await putEnv(tx, appId, { name, sealed: deps.vault.seal('app.env', value), isPlain: false })
}
