/**
 * How many replicas an app should have: pure. Load is the mean over its VMs; what is wanted is that it stays below the
 * thresholds. Up is quick (a short window, at most doubling), down is slow (the highest load of a long window, one at a
 * time, and only when the load would still be well below the threshold after it), so that it does not flap.
 */
export interface LoadSample {
  readonly atMs: number
  /** Mean over the VMs, percent 0..100. */
  readonly cpu: number
  readonly memory: number
  /** Open requests for each replica; absent: not known. */
  readonly requests?: number
}

export interface AutoscaleInput {
  readonly nowMs: number
  /** Oldest first; older ones than `keepMs` are of no use. */
  readonly samples: readonly LoadSample[]
  readonly desired: number
  readonly min: number
  readonly max: number
  /** Percent; 0 switches a threshold off. */
  readonly cpuThreshold: number
  readonly memThreshold: number
  /** Open requests that a replica should have at most; absent or 0 switches it off. */
  readonly requestsPerReplica?: number
  readonly lastChangeMs: number | undefined
}

const upWindowMs = 30_000
const downWindowMs = 120_000
const upPauseMs = 30_000
const downPauseMs = 60_000
/** Within this of the threshold nothing is done. */
const tolerance = 0.1
/** After one fewer, the load must be below this share of the threshold. */
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

/** Load as a share of the threshold that is nearest to being reached, for each sample of the window. */
function ratios(
  { nowMs, samples, cpuThreshold, memThreshold, requestsPerReplica = 0, lastChangeMs }: AutoscaleInput,
  windowMs: number,
): number[] {
  // What was measured with another number of replicas says nothing about this one.
  const fromMs = Math.max(nowMs - windowMs, lastChangeMs ?? 0)
  const share = (load: number, threshold: number) => (threshold > 0 ? load / threshold : 0)
  return samples
    .filter(sample => sample.atMs > fromMs)
    .map(({ cpu, memory, requests = 0 }) =>
      Math.max(share(cpu, cpuThreshold), share(memory, memThreshold), share(requests, requestsPerReplica)),
    )
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
