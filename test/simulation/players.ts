/** Runs simulations on several cores, in child processes (`player.ts`) with a PostgreSQL server each. */
import { type ChildProcess, execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { startReaper } from '../support/reaper.ts'
import type { Answer, Order } from './player.ts'

/** Maximum number of child processes. More would take memory and CPU time from other tests. */
const mostPlayers = 4

/**
 * Runs a simulation for each seed until no seed is left or one fails.
 * @param next returns the next seed, or undefined to stop
 * @param visited receives the name of every workflow phase that was run
 * @returns the number of simulations
 * @throws Error with the seed that failed and how to replay it
 */
export async function play(next: () => number | undefined, steps: number, visited: Set<string>): Promise<number> {
  await using cleanup = new AsyncDisposableStack()
  const reaper = startReaper()
  cleanup.defer(() => reaper.finish())
  let lives = 0
  const stopped = new AbortController()
  const player = async (core: number) => {
    const child = fork(join(import.meta.dirname, 'player.ts'), [], onCore(core))
    reaper.killAtEnd(child.pid ?? 0)
    try {
      await answerOf(child)
      for (let seed = next(); seed !== undefined && !stopped.signal.aborted; seed = next()) {
        child.send({ seed, steps } satisfies Order)
        const answer = await answerOf(child)
        if (answer.is === 'failed') throw new Error(answer.why)
        if (answer.is === 'lived') for (const phase of answer.visited) visited.add(phase)
        lives += 1
      }
    } catch (error) {
      stopped.abort()
      throw error
    } finally {
      if (child.connected) child.disconnect()
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
      reaper.forget(child.pid ?? 0)
    }
  }
  const cores = Array.from({ length: Math.min(mostPlayers, availableParallelism()) }, (_, core) => core)
  for (const ended of await Promise.allSettled(cores.map(player))) if (ended.status === 'rejected') throw ended.reason
  return lives
}

async function answerOf(child: ChildProcess): Promise<Answer> {
  const over = new AbortController()
  try {
    return await Promise.race([
      once(child, 'message', over).then(([answer]: Answer[]) => answer ?? died(child)),
      once(child, 'exit', over).then(() => died(child)),
    ])
  } finally {
    over.abort()
  }
}

function died(child: ChildProcess): never {
  throw new Error(`a player ended by itself: ${child.signalCode ?? child.exitCode}`)
}

/** Returns options that pin the child process to a core with taskset (util-linux), if available. */
function onCore(core: number): { readonly execPath: string; readonly execArgv: string[] } {
  try {
    execFileSync('taskset', ['-c', String(core), 'true'], { stdio: 'ignore' })
    return { execPath: 'taskset', execArgv: ['-c', String(core), process.execPath] }
  } catch {
    return { execPath: process.execPath, execArgv: [] }
  }
}
