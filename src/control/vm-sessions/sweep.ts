/**
 * Ends idle sessions, records the end of sessions that ended while no client was attached, and removes ended sessions
 * from the guests.
 */
import type { Sweep } from '../../engine/sweep.ts'
import { hours, minutes, seconds } from '../../lib/duration.ts'
import { signalNumbers } from '../../contract/session-stream.ts'
import type { Deps } from '../base/deps.ts'
import { recordEnd } from './end.ts'
import { type GuestLine, guestLine, SessionGone } from './guest-line.ts'
import * as store from './store.ts'

/**
 * How long an ended session stays in the guest, so that a client that lost its connection just before the end can
 * still read the rest of the output and the result.
 */
const retainedMs = minutes(10)
/**
 * Time between SIGHUP and SIGKILL. It is also the age below which the sweep ignores a session, because the guest may
 * not have it yet.
 */
const graceMs = seconds(60)
const historyMs = hours(24)

type Known = Awaited<ReturnType<typeof knownTo>>

export const sessionUpkeep = (deps: Pick<Deps, 'db' | 'bus'>): Sweep => ({
  name: 'vm-sessions',
  everyMs: minutes(1),
  async run({ now, signal }) {
    const { db } = deps
    const rows = await store.inGuests(db, new Date(now.getTime() - graceMs))
    const ofVm = Map.groupBy(rows, ({ vmId }) => vmId)
    let unreachable = 0
    for (const [vmId, sessions] of ofVm) {
      if (signal.aborted) break
      const line = guestLine(deps, vmId)
      const known = await knownTo(line, signal).catch(() => undefined)
      if (!known) unreachable++
      else for (const row of sessions) await tend(deps, line, row, known, now)
    }
    const forgotten = await store.removeOld(db, new Date(now.getTime() - historyMs))
    return { sessions: rows.length, unreachable, forgotten }
  },
})

/** Returns the guest's sessions by id; an empty map if the VM is gone. */
async function knownTo(line: GuestLine, signal: AbortSignal) {
  try {
    const { sessions } = await line.ask({ action: 'list' }, signal)
    return new Map(sessions.map(session => [session.sessionId, session]))
  } catch (cause) {
    if (cause instanceof SessionGone) return new Map<string, never>()
    throw cause
  }
}

async function tend(
  deps: Pick<Deps, 'db'>,
  line: GuestLine,
  row: store.SessionRow,
  known: Known,
  now: Date,
): Promise<void> {
  const { db } = deps
  const sessionId = row.id
  const session = known.get(sessionId)
  if (!session) {
    await recordEnd(db, sessionId, { outcome: 'lost', code: null })
    await store.setRemoved(db, sessionId)
  } else if (session.state === 'running') {
    const number = row.endedAt ? signalNumbers.KILL : signalForIdle(row, now)
    if (number !== undefined) await line.ask({ action: 'signal', sessionId, number }).catch(() => undefined)
  } else if (!row.endedAt) await recordEnd(db, sessionId, { outcome: session.state, code: session.number })
  else if (now.getTime() - row.endedAt.getTime() > retainedMs) {
    await line.ask({ action: 'remove', sessionId })
    await store.setRemoved(db, sessionId)
  }
}

function signalForIdle({ idleSeconds, seenAt }: store.SessionRow, now: Date): number | undefined {
  if (idleSeconds === null) return undefined
  const overdueMs = now.getTime() - seenAt.getTime() - seconds(idleSeconds)
  if (overdueMs < 0) return undefined
  return overdueMs < graceMs ? signalNumbers.HUP : signalNumbers.KILL
}
