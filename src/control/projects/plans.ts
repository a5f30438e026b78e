/** The limits of each plan, and the checks that enforce them. */
import { ApiError } from '../http/errors.ts'

export interface PlanLimits {
  readonly autoscalingAllowed: boolean
  readonly customDomains: boolean
  readonly maxApps: number
  readonly maxDatabases: number
  readonly maxDeploymentsPerApp: number
  /** Limit of the total memory of all running VMs of the project. */
  readonly maxMemoryMibTotal: number
  readonly maxStorageGibTotal: number
  readonly maxTeamMembers: number
  readonly maxVcpusTotal: number
  readonly maxVolumes: number
}

/** Limit of plans without a limit, because a limit must be an integer in the API. No project reaches this number. */
const plenty = 1_000_000_000

export const plans = {
  free: {
    autoscalingAllowed: false,
    customDomains: false,
    maxApps: 3,
    maxDatabases: 1,
    maxDeploymentsPerApp: 3,
    maxMemoryMibTotal: 4096,
    maxStorageGibTotal: 10,
    maxTeamMembers: 1,
    maxVcpusTotal: 4,
    maxVolumes: 3,
  },
  pro: {
    autoscalingAllowed: true,
    customDomains: true,
    maxApps: 25,
    maxDatabases: 5,
    maxDeploymentsPerApp: 25,
    maxMemoryMibTotal: 65_536,
    maxStorageGibTotal: 250,
    maxTeamMembers: 10,
    maxVcpusTotal: 32,
    maxVolumes: 50,
  },
  business: {
    autoscalingAllowed: true,
    customDomains: true,
    maxApps: 250,
    maxDatabases: 50,
    maxDeploymentsPerApp: 100,
    maxMemoryMibTotal: 524_288,
    maxStorageGibTotal: 5_000,
    maxTeamMembers: 100,
    maxVcpusTotal: 256,
    maxVolumes: 500,
  },
  unlimited: {
    autoscalingAllowed: true,
    customDomains: true,
    maxApps: plenty,
    maxDatabases: plenty,
    maxDeploymentsPerApp: plenty,
    maxMemoryMibTotal: plenty,
    maxStorageGibTotal: plenty,
    maxTeamMembers: plenty,
    maxVcpusTotal: plenty,
    maxVolumes: plenty,
  },
} as const satisfies Record<string, PlanLimits>

export type Plan = keyof typeof plans

export const isPlan = (text: string): text is Plan => Object.hasOwn(plans, text)

/**
 * Plans without numeric limits that a project could reach. Concurrent creates in such projects need not wait for each
 * other, because nothing is counted.
 */
export const uncountedPlans: readonly Plan[] = Object.entries<PlanLimits>(plans)
  .filter(([, limits]) => Object.values(limits).every(limit => typeof limit === 'boolean' || limit === plenty))
  .flatMap(([name]) => (isPlan(name) ? [name] : []))

export function planLimits(plan: string): PlanLimits {
  if (!isPlan(plan)) throw new Error(`BUG: no plan is called "${plan}"`)
  return plans[plan]
}

export type CountedLimit = { [K in keyof PlanLimits]: PlanLimits[K] extends number ? K : never }[keyof PlanLimits]

const limitText = {
  maxApps: 'apps',
  maxDatabases: 'databases',
  maxDeploymentsPerApp: 'deployments of one app at a time',
  maxMemoryMibTotal: 'MiB of memory in total',
  maxStorageGibTotal: 'GiB of storage in total',
  maxTeamMembers: 'members',
  maxVcpusTotal: 'vCPUs in total',
  maxVolumes: 'volumes',
} as const satisfies Record<CountedLimit, string>

/** Names of the limits in API responses. */
const wireName = {
  maxApps: 'max_apps',
  maxDatabases: 'max_databases',
  maxDeploymentsPerApp: 'max_deployments_per_app',
  maxMemoryMibTotal: 'max_memory_mb_total',
  maxStorageGibTotal: 'max_storage_gb_total',
  maxTeamMembers: 'max_team_members',
  maxVcpusTotal: 'max_vcpus_total',
  maxVolumes: 'max_volumes',
} as const satisfies Record<CountedLimit, string>

/**
 * Checks that the plan's limit allows `adding` more resources in addition to `used`. The caller must count `used`
 * after `lockLimits`; otherwise two concurrent requests could both create the last allowed resource.
 * @throws ApiError 403 `plan_limit_exceeded` with `{limit, used, max}`
 */
export function assertWithin(limits: PlanLimits, limit: CountedLimit, used: number, adding = 1): void {
  const max = limits[limit]
  if (used + adding <= max) return
  throw new ApiError(
    'plan_limit_exceeded',
    `The plan of this project allows ${max} ${limitText[limit]}; ${used} in use.`,
    {
      extra: { limit: wireName[limit], used, max },
    },
  )
}

export type Permission = { [K in keyof PlanLimits]: PlanLimits[K] extends boolean ? K : never }[keyof PlanLimits]

const permissionText = {
  autoscalingAllowed: { wire: 'autoscaling_allowed', text: 'autoscaling' },
  customDomains: { wire: 'custom_domains', text: 'custom domains' },
} as const satisfies Record<Permission, { readonly wire: string; readonly text: string }>

/**
 * Checks that the plan includes a feature.
 * @throws ApiError 403 `plan_limit_exceeded` with `{limit, used, max}`, where `used` and `max` are 0
 */
export function assertAllowed(limits: PlanLimits, permission: Permission): void {
  if (limits[permission]) return
  const { wire, text } = permissionText[permission]
  throw new ApiError('plan_limit_exceeded', `The plan of this project does not include ${text}.`, {
    extra: { limit: wire, used: 0, max: 0 },
  })
}
