import type { VmObserved } from '../../contract/agent.ts'

export interface News {
  tell(seen: VmObserved): void
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
export function newsOf(publish: (seen: VmObserved) => void): News {
  let told: VmObserved | undefined
  let waiting: { seen: VmObserved; readonly timer: NodeJS.Timeout } | undefined
  const stop = () => {
    clearTimeout(waiting?.timer)
    waiting = undefined
  }
  const say = (seen: VmObserved) => {
    stop()
    told = seen
    publish(seen)
  }
  return {
    tell(seen) {
      const isKnown = told !== undefined && factsOf(told) === factsOf(seen)
      if (isKnown && told?.steps.length === seen.steps.length) return stop()
      if (!isKnown && !mayWait(seen, told)) return say(seen)
      if (waiting) waiting.seen = seen
      else waiting = { seen, timer: setTimeout(() => waiting && say(waiting.seen), waitMs).unref() }
    },
    stop,
  }
}

const factsOf = (seen: object) => JSON.stringify({ ...seen, steps: [], atUs: 0 })

/** What changes while a start goes on as it should; the answer to its wish has said that it does. */
const ofStart = { state: null, endpoint: null, imageDigest: null, startedAtMs: null, firewall: null } as const

const mayWait = (seen: VmObserved, told: VmObserved | undefined) =>
  isOnItsWay(seen) &&
  (told === undefined || (isOnItsWay(told) && factsOf({ ...told, ...ofStart }) === factsOf({ ...seen, ...ofStart })))

function isOnItsWay({ state, healthy, error, exitCode, migration }: VmObserved): boolean {
  if (error !== null || exitCode !== null || healthy || migration) return false
  return state === 'preparing' || state === 'booting' || state === 'running'
}
