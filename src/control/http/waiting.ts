/** `?wait=<state>`: delays the response until a resource has reached the state, or the timeout is over. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type TObject, Type } from 'typebox'
import { deploymentStatuses } from '../../contract/deployments.ts'
import { text, uint32 } from './types.ts'

const firstPauseMs = 100
const longestPauseMs = 1_000
/**
 * Maximum number of waiting requests in this process, each of which queries the database once a second. Further
 * requests are answered at once.
 */
const mostWaits = 200

/** Final states: a resource does not leave them by itself, so waiting for another state ends here. */
const ends: ReadonlySet<unknown> = new Set(['failed', 'cancelled', 'superseded', 'deleted', 'succeeded'])

/**
 * All states of all kinds of resources. A request to wait for any other state is refused, because it must be
 * misspelled.
 */
const states = new Set<string>([
  ...deploymentStatuses,
  // States of databases, branches, snapshots and volumes.
  ...['creating', 'running', 'ready', 'suspended', 'restarting', 'restoring', 'unavailable', 'failed', 'deleting'],
  ...['pending', 'growing', 'moving', 'waiting', 'attaching', 'attached', 'detaching'],
  // States of builds, and of the scaling of an app.
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
        description: `Delays the response until \`${member}\` has this value, or one of several (\`running,failed\`). The response is sent earlier if another final state is reached, or when \`timeout\` has passed.`,
        examples: ['running,failed'],
      }),
    ),
    timeout: Type.Optional(
      uint32({
        minimum: 1,
        maximum: 60,
        default: 30,
        description: 'Maximum number of seconds for which `wait` delays the response.',
        examples: [30],
      }),
    ),
  })

let waits = 0

/** Waits until the resource has one of the wanted states. @param readAgain reads the resource again. @returns the last response */
export async function untilState(
  member: string,
  query: Readonly<Record<string, unknown>>,
  first: unknown,
  readAgain: () => Promise<unknown>,
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
      answer = await readAgain()
    }
  } finally {
    waits--
  }
}
