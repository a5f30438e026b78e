/** `?wait=<state>`: an answer that comes once a resource is in the state, or when the time is over. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type TObject, Type } from 'typebox'
import { deploymentStatuses } from '../../contract/deployments.ts'
import { text, uint32 } from './types.ts'

const firstPauseMs = 100
const longestPauseMs = 1_000
/** In all of this process: each looks at the database once a second. More are answered at once. */
const mostWaits = 200

/** States from which a resource does not come back by itself: waiting for another one is of no use. */
const ends: ReadonlySet<unknown> = new Set(['failed', 'cancelled', 'superseded', 'deleted', 'succeeded'])

/** Of every kind of resource: a state that is misspelt would only be waited for in vain. */
const states = new Set<string>([
  ...deploymentStatuses,
  // Databases and branches, snapshots, volumes.
  ...['creating', 'running', 'ready', 'suspended', 'restarting', 'restoring', 'unavailable', 'failed', 'deleting'],
  ...['pending', 'growing', 'moving', 'waiting', 'attaching', 'attached', 'detaching'],
  // Builds, and how an app is scaled.
  ...['queued', 'fetching', 'pushing', 'succeeded', 'cancelled', 'active', 'idle', 'scaled_to_zero', 'warming_up'],
])
const oneState = `(?:${[...states].join('|')})`

export const waitQuery = (member: string, own: TObject | undefined): TObject =>
  Type.Object({
    ...own?.properties,
    wait: Type.Optional(
      text({
        maxLength: 200,
        pattern: `^${oneState}(?:,${oneState})*$`,
        'x-mote-pattern': 'states of the resource, separated by commas',
        description: `Answers once \`${member}\` is this, or one of several (\`running,failed\`); else with what it is when it has ended or the time is over.`,
        examples: ['running,failed'],
      }),
    ),
    timeout: Type.Optional(
      uint32({ minimum: 1, maximum: 60, default: 30, description: 'Seconds to wait at most.', examples: [30] }),
    ),
  })

let waits = 0

/** @param look reads the resource again. @returns the last answer */
export async function untilState(
  member: string,
  query: Readonly<Record<string, unknown>>,
  first: unknown,
  look: () => Promise<unknown>,
  signal: AbortSignal,
): Promise<unknown> {
  const { wait, timeout } = query
  if (typeof wait !== 'string' || waits >= mostWaits) return first
  const wanted: ReadonlySet<unknown> = new Set(wait.split(','))
  const until = performance.now() + (typeof timeout === 'number' ? timeout : 30) * 1000
  let answer = first
  waits++
  try {
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
      const state: unknown = typeof answer === 'object' && answer !== null ? Reflect.get(answer, member) : undefined
      const leftMs = until - performance.now()
      if (state === undefined || wanted.has(state) || ends.has(state) || leftMs <= 0 || signal.aborted) return answer
      await sleep(Math.min(pauseMs, leftMs), undefined, { signal }).catch(() => undefined)
      answer = await look()
    }
  } finally {
    waits--
  }
}
