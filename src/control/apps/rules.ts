import type { CanarySettings, RestartSettings, Strategy } from '../deployments/index.ts'
import { invalidField } from '../http/errors.ts'
import type { Scale } from './store.ts'

/** An app name is a DNS label (RFC 1123), because it becomes part of the hostname. */
const namePattern = /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/

export function checkName(name: string): string {
  if (!namePattern.test(name) || name.includes('--'))
    throw invalidField('name', 'use 1 to 40 lower-case letters, digits and single hyphens, for example my-app')
  return name
}

/**
 * Returns the hostname of an app: `<app>-<project>.<domain>`.
 * @throws ApiError 400 when the label would be longer than DNS allows (63, RFC 1035 2.3.4).
 */
export function hostnameOf(app: string, projectSlug: string, domain: string): string {
  const label = `${app}-${projectSlug}`
  if (label.length > 63) throw invalidField('name', `is too long: "${label}" must have at most 63 characters`)
  return `${label}.${domain}`
}

const gitSchemes = new Set(['https:', 'ssh:', 'http:', 'git:'])

/**
 * Validates a repository URL: https, ssh, git, or the scp form `git@host:path`. Empty for apps that are deployed only
 * from images.
 */
export function checkGitUrl(url: string): string {
  if (url === '') return url
  if (url.length > 2048) throw invalidField('git_url', 'must have at most 2048 characters')
  if (/^[\w.-]+@[\w.-]+:(?!\/)[\w./~-]+$/.test(url)) return url
  const parsed = URL.parse(url)
  if (!parsed || !gitSchemes.has(parsed.protocol) || parsed.hostname === '')
    throw invalidField('git_url', 'must be a repository such as https://host/owner/repo.git or git@host:owner/repo.git')
  if (parsed.password !== '')
    throw invalidField('git_url', 'must not contain a password; connect the repository instead')
  return url
}

/** Validates a branch name by the rules of git-check-ref-format(1). Empty for the repository's default branch. */
export function checkBranch(name: string): string {
  const isOdd =
    name.length > 255 ||
    // eslint-disable-next-line no-control-regex -- control characters are among what git refuses
    /[\s~^:?*[\\\u0000-\u001f\u007f]|\.\.|@\{|\/\/|^[-/.]|\/\.|[/.]$|\.lock(\/|$)|^@$/.test(name)
  if (isOdd) throw invalidField('git_branch', 'must be the name of a branch, such as main or release/2.0')
  return name
}

/**
 * Validates the path of the health check. It must be an absolute path without a host, so that health checks cannot be
 * directed at another server.
 */
export function checkHealthPath(path: string): string {
  if (!/^\/[\x21-\x7e]*$/.test(path) || path.startsWith('//') || path.length > 512)
    throw invalidField('health_check_path', 'must be a path that starts with one slash, for example /health')
  return path
}

/**
 * Maximum size of a command. Command, environment and files are stored on a config disk of 1 MiB, from which the guest
 * reads them.
 */
const maxCommandBytes = 16_384

export function checkArguments(given: readonly string[]): readonly string[] {
  if (Buffer.byteLength(given.join(' ')) > maxCommandBytes)
    throw invalidField('arguments', `can have at most ${maxCommandBytes} bytes in total`)
  return given
}

export function checkProgram(command: readonly string[]): readonly string[] {
  if (command.length > 0 && command[0] === '') throw invalidField('command', 'must start with a program')
  if (Buffer.byteLength(command.join(' ')) > maxCommandBytes)
    throw invalidField('command', `can have at most ${maxCommandBytes} bytes in total`)
  return command
}

export function checkEnvOf(kind: 'web' | 'worker', name: string | null): string | null {
  if (name !== null && kind !== 'worker') throw invalidField('env_of', 'is only for apps of the kind worker')
  return name
}

/** Checks that a worker never scales to zero, because no request would wake it. @throws ApiError 400 */
export function checkAwake(kind: 'web' | 'worker', scale: Scale): Scale {
  if (kind === 'worker' && scale.minReplicas < 1)
    throw invalidField('min_replicas', 'must be at least 1 for a worker, since no request wakes it')
  return scale
}

export function checkPort(port: number): number {
  if (port < 1 || port > 65_535) throw invalidField('port', 'must be from 1 to 65535')
  return port
}

export function checkDrainTimeout(seconds: number): number {
  if (seconds < 0 || seconds > 3600) throw invalidField('drain_timeout', 'must be from 0 to 3600 seconds')
  return seconds
}

export const maxReplicas = 100

/**
 * Checks that `0 <= min <= desired <= max` replicas, and the autoscaler's CPU and memory thresholds.
 * @throws ApiError 400 naming the first invalid field
 */
export function checkScale(scale: Scale): Scale {
  const { minReplicas: min, maxReplicas: max, desiredReplicas: desired } = scale
  if (min < 0) throw invalidField('min_replicas', 'must not be negative')
  if (max < 1 || max > maxReplicas) throw invalidField('max_replicas', `must be from 1 to ${maxReplicas}`)
  if (min > max) throw invalidField('min_replicas', `must not be greater than max_replicas (${max})`)
  if (desired < min || desired > max)
    throw invalidField('desired_replicas', `must be from min_replicas (${min}) to max_replicas (${max})`)
  for (const [field, value] of [
    ['cpu_threshold', scale.cpuThreshold],
    ['mem_threshold', scale.memThreshold],
  ] as const)
    if (!(value >= 0 && value <= 100)) throw invalidField(field, 'must be a percentage from 0 to 100')
  return scale
}

export const defaults = {
  port: 8080,
  healthCheckPath: '/',
  drainTimeout: 30,
  cpuThreshold: 80,
  memThreshold: 80,
} as const

/** Validates the release command; returns null for an empty one. @throws ApiError 400 */
export function checkCommand(command: readonly string[]): readonly string[] | null {
  if (command.some(argument => argument.includes('\0'))) throw invalidField('release_command', 'must not contain NUL')
  return command.length === 0 ? null : [...command]
}

export interface CanaryRequest {
  readonly percent: number
  readonly seconds?: number | null
  readonly max_error_percent?: number | null
  readonly min_requests?: number | null
}

/**
 * Returns the canary settings of a request with defaults; null for a canary with 0 % of the requests.
 * @throws ApiError 400 naming the field
 */
export function canaryOf(request: CanaryRequest): CanarySettings | null {
  const { percent, seconds, max_error_percent, min_requests } = request
  if (percent === 0) return null
  if (!(percent >= 1 && percent <= 99)) throw invalidField('canary/percent', 'must be from 1 to 99, or 0 for no canary')
  return {
    percent,
    seconds: seconds ?? 300,
    max_error_percent: max_error_percent ?? 5,
    min_requests: min_requests ?? 20,
  }
}

/** Checks that the app is not a worker: workers get no requests, so they cannot have a canary. @throws ApiError 400 */
export function assertCanBeCanary(kind: 'web' | 'worker'): void {
  if (kind === 'worker') throw invalidField('canary', 'must be left out for a worker, since it gets no requests')
}

/** Validates the canary settings of an app. @throws ApiError 400 */
export function checkCanary(kind: 'web' | 'worker', request: CanaryRequest): CanarySettings | null {
  const canary = canaryOf(request)
  if (canary) assertCanBeCanary(kind)
  return canary
}

/**
 * Checks that an app with the strategy `one-at-a-time` has no canary, because a canary runs beside the active version.
 * @throws ApiError 400
 */
export function assertOneStrategy(app: { readonly strategy: Strategy; readonly canary: CanarySettings | null }): void {
  if (app.strategy === 'one-at-a-time' && app.canary)
    throw invalidField(
      'strategy',
      'cannot be one-at-a-time together with a canary, which runs at the same time as the old version',
    )
}

export interface RestartRequest {
  readonly policy: RestartSettings['policy']
  readonly max_restarts?: number | null
}

/** Returns the restart settings of a request; null if they equal the installation's default. */
export const restartOf = ({ policy, max_restarts = null }: RestartRequest): RestartSettings | null =>
  policy === 'always' && max_restarts === null ? null : { policy, max_restarts }
