/**
 * The run workflow: waits until the run's VM has executed the command, records the result and the last lines of output,
 * and removes the VM.
 */
import { poke } from '../../engine/runner.ts'
import { done, go, type Step, wait, workflow } from '../../engine/workflow.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import { setVmWant } from '../vms/index.ts'
import type { Outcome, Run } from './store.ts'
import * as store from './store.ts'

/**
 * Interval at which the workflow checks the run even without a poke. Every relevant change pokes the workflow, but a
 * poke may be lost.
 */
const pollMs = seconds(30)
/** Time limit for finding a host, pulling the image and starting the VM. */
const startMs = minutes(15)
/** A run without a command ends after its VM has had no session for this long. */
const unusedMs = minutes(2)
const keptLines = 1000
const keptChars = 64 * 1024
const shownLines = 5

type RunDeps = Pick<Deps, 'db' | 'bus' | 'log'>

export const runWorkflow = (deps: RunDeps) =>
  workflow<Run>()({
    kind: 'run',
    edges: { starting: ['running', 'ending'], running: ['ending'], ending: [] },
    load: id => store.byId(deps.db, id),
    preempt: run => (run.want === 'cancelled' || run.isOrphan ? 'ending' : undefined),
    phases: {
      async starting({ subject: run, enteredAt, now }) {
        const { vm } = run
        if (!vm || vm.want === 'absent') return end(deps, run, 'lost', 'The host was lost before the program started.')
        if (vm.observedState === 'crashed') return exited(deps, run)
        if (vm.observedState === 'running') {
          const begin = async (tx: Parameters<typeof store.started>[0]) => {
            await store.started(tx, run.id)
          }
          return go('running', begin, seconds(run.timeoutSeconds) + minutes(5))
        }
        const leftMs = enteredAt.getTime() + startMs - now.getTime()
        const why = vm.error ?? vm.note
        if (leftMs <= 0)
          return end(deps, run, 'failed', `The program did not start within 15 minutes. ${why ?? ''}`.trim())
        return wait(Math.min(leftMs, pollMs))
      },

      async running({ subject: run, enteredAt, now }) {
        const { vm } = run
        if (!vm || vm.want === 'absent') return end(deps, run, 'lost', 'The host was lost while the program ran.')
        if (vm.observedState === 'crashed') return exited(deps, run)
        const leftMs = (run.startedAt ?? enteredAt).getTime() + seconds(run.timeoutSeconds) - now.getTime()
        if (leftMs <= 0) return end(deps, run, 'timed_out', `The program ran longer than ${run.timeoutSeconds} s.`)
        if (run.command !== null) return wait(Math.min(leftMs, pollMs))
        const idleMs = unusedSinceMs(run, enteredAt, now)
        if (idleMs >= unusedMs) return end(deps, run, 'succeeded', null)
        return wait(Math.min(leftMs, unusedMs - idleMs, pollMs))
      },

      async ending({ subject: run }: Step<Run>) {
        const { vm } = run
        if (vm)
          return wait(pollMs, async tx => {
            await decideBySession(tx, run)
            await setVmWant(tx, vm.id, 'absent')
          })
        return done(async tx => {
          await store.ended(tx, run.id)
          await poke(tx, 'deployment', run.deploymentId)
        })
      },
    },
  })

/**
 * Records the result of the last session for a run without a command. A client such as `mote run` cancels the run
 * after its session has ended, to remove the VM. The run then counts as finished, not as cancelled.
 */
async function decideBySession(tx: Parameters<typeof store.started>[0], run: Run): Promise<void> {
  const { open, lastCode } = run.sessions
  if (run.outcome !== null || run.want !== 'cancelled' || open > 0 || lastCode === null) return
  const [outcome, error] =
    lastCode === 0 ? (['succeeded', null] as const) : (['failed', `The program exited with code ${lastCode}.`] as const)
  await store.decide(tx, run.id, { outcome, exitCode: lastCode, error, log: null })
}

function unusedSinceMs({ sessions }: Run, enteredAt: Date, now: Date): number {
  if (sessions.open > 0) return 0
  return now.getTime() - Math.max(enteredAt.getTime(), sessions.lastEndedAt?.getTime() ?? 0)
}

/** Ends a run whose program has exited or could not be started. */
function exited(deps: RunDeps, run: Run) {
  const { exitCode = null, error = null } = run.vm ?? {}
  if (exitCode === 0) return end(deps, run, 'succeeded', null, 0)
  return end(deps, run, 'failed', exitCode === null ? error : `The program exited with code ${exitCode}.`, exitCode)
}

async function end(deps: RunDeps, run: Run, outcome: Outcome, reason: string | null, exitCode: number | null = null) {
  const log = await lastLines(deps, run)
  const shown = (log ?? '').trimEnd().split('\n').slice(-shownLines).join('\n')
  const error = reason !== null && shown !== '' ? `${reason} Last lines:\n${shown}` : reason
  return go(
    'ending',
    async tx => {
      await store.decide(tx, run.id, { outcome, exitCode, error, log })
      await poke(tx, 'deployment', run.deploymentId)
    },
    minutes(10),
  )
}

/**
 * Returns the last lines of the run's output; null if the host does not respond, because a missing log must not delay
 * the run's result.
 */
export async function lastLines({ bus, log }: Pick<RunDeps, 'bus' | 'log'>, run: Pick<Run, 'command' | 'vm'>) {
  if (run.command === null || !run.vm?.hostId) return null
  try {
    const answer = await agentClient(bus, run.vm.hostId).logs({ vmId: run.vm.id, tail: keptLines, afterUs: 0 })
    const lines = answer.lines.filter(line => line.stream !== 'system').map(line => `${line.line}\n`)
    return lines.join('').slice(-keptChars)
  } catch (err) {
    log.warn({ err, vmId: run.vm.id }, 'a host did not return the log of a run')
    return null
  }
}
