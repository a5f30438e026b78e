import type { VmObserved } from '../../contract/agent.ts'

export interface News {
  tell(seen: VmObserved): void
  /** Nothing more is said, what waits included. */
  stop(): void
}

/** Steps are for people who watch. */
const stepsMs = 150

/**
 * Says what is seen of one VM: at once what somebody acts on; mere steps a moment later, with those that came meanwhile;
 * nothing twice. Each message is a transaction of the control plane, and a start has ten of them.
 */
export function newsOf(publish: (seen: VmObserved) => void): News {
  let told = { facts: '', steps: 0 }
  let waiting: { seen: VmObserved; readonly timer: NodeJS.Timeout } | undefined
  const stop = () => {
    clearTimeout(waiting?.timer)
    waiting = undefined
  }
  const say = (seen: VmObserved, facts: string) => {
    stop()
    told = { facts, steps: seen.steps.length }
    publish(seen)
  }
  return {
    tell(seen) {
      const facts = JSON.stringify({ ...seen, steps: [], atUs: 0 })
      if (facts !== told.facts) return say(seen, facts)
      if (seen.steps.length === told.steps) return stop()
      if (waiting) waiting.seen = seen
      else waiting = { seen, timer: setTimeout(() => waiting && say(waiting.seen, facts), stepsMs).unref() }
    },
    stop,
  }
}
