import type { VmObserved } from '../../contract/agent.ts'

export interface News {
  report(observed: VmObserved): void
  /** Nothing more is said, what waits included. */
  stop(): void
}

/** How far a start has come is for people who watch. */
const waitMs = 150

/**
 * Says what is seen of one VM: at once what somebody acts on; how far its start has come, and mere steps, a moment later and
 * with what came meanwhile; nothing twice. Each message is a transaction of the control plane on the cores that the start
 * needs itself: of a VM that is well within the moment, that is all that is said.
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

/** What changes while a start goes on as it should; the answer to its wish has said that it does. */
const ofStart = { state: null, endpoint: null, imageDigest: null, startedAtMs: null, firewall: null } as const

const mayWait = (observed: VmObserved, reported: VmObserved | undefined) =>
  isOnItsWay(observed) &&
  (reported === undefined ||
    (isOnItsWay(reported) && factsOf({ ...reported, ...ofStart }) === factsOf({ ...observed, ...ofStart })))

function isOnItsWay({ state, healthy, error, exitCode, migration }: VmObserved): boolean {
  if (error !== null || exitCode !== null || healthy || migration) return false
  return state === 'preparing' || state === 'booting' || state === 'running'
}
