/**
 * One simulated run ("life"): random events with faults, then recovery without faults. The invariants are checked after
 * every step.
 */
import { settle, watch } from './invariants.ts'
import { operations } from './operations.ts'
import { simulation } from './simulation.ts'
import type { Stage } from './stage.ts'

const chances = operations.flatMap(([name, often, act]) => Array.from({ length: often }, () => ({ name, act })))
/** Probability that a message is lost or a workflow step fails. */
const faults = 0.08

/**
 * Runs one life. @throws Error with the seed and the last events if an invariant is violated
 * @param visited receives the name of every workflow phase that was run
 * @returns the events, with ids replaced by numbers, because ids differ between runs of the same seed
 */
export async function live(
  stage: Omit<Stage, typeof Symbol.asyncDispose>,
  seed: number,
  steps: number,
  visited: Set<string>,
): Promise<string[]> {
  await using sim = await simulation(seed, stage, visited)
  const invariants = watch(sim)
  sim.faults = faults
  try {
    for (let at = 0; at < steps; at++) {
      const dice = sim.random.next()
      if (dice < 0.2) {
        const chosen = sim.random.pick(chances)
        sim.history.push(chosen?.name ?? '')
        await chosen?.act(sim)
      } else if (dice < 0.45) {
        const host = sim.random.pick(sim.world.hosts)
        if (host) await sim.hostMoves(host)
      } else await sim.step()
      await Promise.all([stage.tick(), invariants.check()])
    }
    sim.history.push('all faults end')
    await settle(sim)
    await invariants.check()
    return numbered(sim.history)
  } catch (cause) {
    const lately = numbered(sim.history).slice(-40).join('\n  ')
    throw new Error(
      `seed ${seed} failed; replay it with: MOTE_SIMULATION_SEED=${seed} vitest run test/simulation\n  ${lately}`,
      { cause },
    )
  }
}

/** Replaces ids by numbers, in the order in which they first appear. */
function numbered(history: readonly string[]): string[] {
  const known = new Map<string, string>()
  return history.map(line =>
    line.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, id => {
      const number = known.get(id) ?? `#${known.size + 1}`
      known.set(id, number)
      return number
    }),
  )
}
