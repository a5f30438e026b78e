/**
 * Serves the WebSocket of one client of a VM session until the client disconnects, another client takes its place, or
 * it has received the result of the session.
 */
import { sessionClose } from '../../contract/session-stream.ts'
import { newId } from '../../lib/ids.ts'
import { BusError } from '../../bus/bus.ts'
import type { Deps } from '../base/deps.ts'
import type { MessageSocket } from '../http/operation.ts'
import { Attachment, type Positions } from './attachment.ts'
import { recordEnd } from './end.ts'
import { type GuestLine, guestLine, patient, SessionGone, Unreachable } from './guest-line.ts'
import * as store from './store.ts'

/** Interval at which the session's `seen_at` is updated while a client is attached. */
const touchMs = 60_000

type AttachDeps = Pick<Deps, 'db' | 'bus' | 'clock'>

export function attachTo(deps: AttachDeps, row: store.SessionRow, from: Positions) {
  return async (socket: MessageSocket): Promise<void> => {
    const { db } = deps
    const readerId = newId()
    const line = patient(guestLine(deps, row.vmId), () => deps.clock.monotonicMs())
    const touch = setInterval(() => void store.touch(db, row.id).catch(() => undefined), touchMs)
    try {
      await store.attach(db, row.id, readerId)
      await serve(deps, { row, readerId, line, socket, from })
    } catch (cause) {
      if (socket.signal.aborted) return
      await closeAfter(deps, row, readerId, socket, cause)
    } finally {
      clearInterval(touch)
    }
  }
}

interface Serving {
  readonly row: store.SessionRow
  readonly readerId: string
  readonly line: GuestLine
  readonly socket: MessageSocket
  readonly from: Positions
}

async function serve(deps: AttachDeps, { row, readerId, line, socket, from }: Serving): Promise<void> {
  const options = { sessionId: row.id, readerId, ...(await startOf(line, row.id, from, socket.signal)) }
  const complete = await new Attachment(socket, line, options).run(async ({ reason, code }) =>
    recordEnd(deps.db, row.id, { outcome: reason, code }),
  )
  if (!complete) return
  await line.ask({ action: 'remove', sessionId: row.id })
  await store.setRemoved(deps.db, row.id)
}

/**
 * Returns the positions of input and output at which the client continues. It is a separate function, because its
 * caller runs as long as the client is attached, and would keep the whole session list in memory.
 */
async function startOf(line: GuestLine, id: string, from: Positions, signal: AbortSignal) {
  const { sessions } = await line.ask({ action: 'list' }, signal)
  const found = sessions.find(({ sessionId }) => sessionId === id)
  if (!found) throw new SessionGone('no such session')
  const { total, inputBytes } = found
  const start = { stdout: Math.min(from.stdout, total.stdout), stderr: Math.min(from.stderr, total.stderr) }
  return { from: start, inputBytes }
}

async function closeAfter(
  deps: AttachDeps,
  row: store.SessionRow,
  readerId: string,
  socket: MessageSocket,
  cause: unknown,
): Promise<void> {
  if (cause instanceof SessionGone) {
    await recordEnd(deps.db, row.id, { outcome: 'lost', code: null })
    await store.setRemoved(deps.db, row.id)
    return socket.close(sessionClose.gone, 'the session is gone')
  }
  if ((await store.currentAttachment(deps.db, row.id)) !== readerId)
    return socket.close(sessionClose.replaced, 'another client is attached')
  if (cause instanceof Unreachable || (cause instanceof BusError && cause.remoteCode === 'session_refused'))
    return socket.close(sessionClose.unreachable, 'the VM does not answer')
  throw cause
}
