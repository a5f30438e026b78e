/**
 * Decides how many replicas an app should have. Pure. The load is the mean over the app's VMs and should stay below the
 * thresholds. Scaling up is quick (a short window, at most doubling). Scaling down is slow (the highest load of a long
 * window, one replica at a time, and only if the load would stay well below the threshold), which prevents flapping.
 */
export interface LoadSample {
  readonly atMs: number
  /** Mean CPU usage of the app's VMs, in percent (0 to 100). */
  readonly cpu: number
  readonly memory: number
  /** Mean number of open requests per replica; absent if unknown. */
  readonly requests?: number
}

export interface AutoscaleInput {
  readonly nowMs: number
  /** Samples of the load, oldest first; samples older than `keepMs` are not needed. */
  readonly samples: readonly LoadSample[]
  readonly desired: number
  readonly min: number
  readonly max: number
  /** CPU usage in percent above which replicas are added; 0 disables this threshold. */
  readonly cpuThreshold: number
  readonly memThreshold: number
  /** Number of open requests per replica above which replicas are added; absent or 0 disables this threshold. */
  readonly requestsPerReplica?: number
  readonly lastChangeMs: number | undefined
}

const upWindowMs = 30_000
const downWindowMs = 120_000
const upPauseMs = 30_000
const downPauseMs = 60_000
/** The load may exceed a threshold by this share of the threshold before replicas are added. */
const tolerance = 0.1
/** A replica is removed only if the load of the remaining ones would stay below this share of the threshold. */
const downShare = 0.8
const fewestSamples = 3

export const keepMs = downWindowMs

export function autoscale(input: AutoscaleInput): number {
  const floor = Math.max(input.min, 1)
  const clamp = (n: number) => Math.min(Math.max(n, floor), input.max)
  if (clamp(input.desired) !== input.desired) return clamp(input.desired)
  const quietMs = input.lastChangeMs === undefined ? Number.POSITIVE_INFINITY : input.nowMs - input.lastChangeMs
  const recent = ratios(input, upWindowMs)
  if (recent.length < fewestSamples) return input.desired
  const now = mean(recent)
  if (now > 1 + tolerance && quietMs >= upPauseMs)
    return clamp(Math.min(Math.ceil(input.desired * now), input.desired * 2))
  const long = ratios(input, downWindowMs)
  const covered = input.nowMs - (input.samples.find(s => s.atMs > input.nowMs - downWindowMs)?.atMs ?? input.nowMs)
  if (input.desired <= floor || quietMs < downPauseMs || covered < downWindowMs * 0.8) return input.desired
  const afterwards = (Math.max(...long) * input.desired) / (input.desired - 1)
  return afterwards < downShare ? input.desired - 1 : input.desired
}

/**
 * Returns for each sample in the window its highest load (CPU, memory or requests) as a share of the respective
 * threshold.
 */
function ratios(
  { nowMs, samples, cpuThreshold, memThreshold, requestsPerReplica = 0, lastChangeMs }: AutoscaleInput,
  windowMs: number,
): number[] {
  // Exclude samples from before the last scaling, because they were measured with another number of replicas.
  const fromMs = Math.max(nowMs - windowMs, lastChangeMs ?? 0)
  const share = (load: number, threshold: number) => (threshold > 0 ? load / threshold : 0)
  return samples
    .filter(sample => sample.atMs > fromMs)
    .map(({ cpu, memory, requests = 0 }) =>
      Math.max(share(cpu, cpuThreshold), share(memory, memThreshold), share(requests, requestsPerReplica)),
    )
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
