import type { VmObserved } from '../../contract/agent.ts'

export interface News {
  report(observed: VmObserved): void
  /** Stops publishing and drops pending reports. */
  stop(): void
}

/** Delay of reports about the progress of a start, in milliseconds. Progress is only displayed. */
const waitMs = 500

/**
 * Publishes the observed state of one VM without duplicates. States that the control plane acts on are published
 * immediately. The progress of a start is delayed and combined: each report costs the control plane a transaction, for
 * which it may use the same CPU cores as the start. A VM that becomes healthy within the delay causes a single report.
 */
export function newsOf(publish: (observed: VmObserved) => void): News {
  let reported: VmObserved | undefined
  let waiting: { observed: VmObserved; readonly timer: NodeJS.Timeout } | undefined
  const stop = () => {
    clearTimeout(waiting?.timer)
    waiting = undefined
  }
  const say = (observed: VmObserved) => {
    stop()
    reported = observed
    publish(observed)
  }
  return {
    report(observed) {
      const isKnown = reported !== undefined && factsOf(reported) === factsOf(observed)
      if (isKnown && reported?.steps.length === observed.steps.length) return stop()
      if (!isKnown && !mayWait(observed, reported)) return say(observed)
      if (waiting) waiting.observed = observed
      else waiting = { observed, timer: setTimeout(() => waiting && say(waiting.observed), waitMs).unref() }
    },
    stop,
  }
}

const factsOf = (observed: object) => JSON.stringify({ ...observed, steps: [], atUs: 0 })

/**
 * Fields whose change during a normal start may be reported later, because the control plane has requested the start.
 */
const ofStart = { state: null, endpoint: null, imageDigest: null, startedAtMs: null, firewall: null } as const

const mayWait = (observed: VmObserved, reported: VmObserved | undefined) =>
  isOnItsWay(observed) &&
  (reported === undefined ||
    (isOnItsWay(reported) && factsOf({ ...reported, ...ofStart }) === factsOf({ ...observed, ...ofStart })))

function isOnItsWay({ state, healthy, error, exitCode, migration }: VmObserved): boolean {
  if (error !== null || exitCode !== null || healthy || migration) return false
  return state === 'preparing' || state === 'booting' || state === 'running'
}
