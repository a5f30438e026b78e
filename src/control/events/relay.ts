/**
 * The outbox relay: one holder in the cluster (advisory lock) gives new events their position and publishes them on the
 * bus, woken by NOTIFY. A crash between the commit and the publish loses nothing: streams that notice a hole, and every
 * stream at its start, read from the table.
 */
import type { Deps } from '../deps.ts'
import { hasUnplaced, place, type PlacedEvent } from './store.ts'

const batch = 500
/** When a transaction older than the events is still open they are not due yet; look again this soon. */
const settleMs = 2
/** Without a NOTIFY (a lost connection), and for taking over from a holder that died. */
const pollMs = 1000

export const eventSubject = (projectId: string) => `event.${projectId}`

/** On the bus, an event is its row with the time as text. */
export type EventMessage = Omit<PlacedEvent, 'at'> & { readonly at: string }

export function startRelay(deps: Pick<Deps, 'db' | 'bus' | 'log'>): { stop(): Promise<void> } {
  const stopping = new AbortController()
  let wake = () => {}
  let pending = false
  const poke = () => {
    pending = true
    wake()
  }
  const pause = (ms: number) =>
    new Promise<void>(resolve => {
      if (pending || stopping.signal.aborted) return resolve()
      const timer = setTimeout(resolve, ms)
      wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })

  const drain = async () => {
    for (;;) {
      const rows = await place(deps.db, batch)
      for (const row of rows) await deps.bus.publish(eventSubject(row.projectId), { ...row, at: row.at.toISOString() })
      if (rows.length === batch) continue
      if (!(await hasUnplaced(deps.db))) return
      await pause(settleMs)
    }
  }
  const hold = async (lost: AbortSignal) => {
    while (!stopping.signal.aborted && !lost.aborted) {
      pending = false
      await drain()
      await pause(pollMs)
    }
  }
  const loop = (async () => {
    const listening = await deps.db.listen('event', poke)
    while (!stopping.signal.aborted) {
      try {
        await deps.db.withLock('event-relay', hold)
      } catch (cause) {
        deps.log.warn({ err: cause }, 'event relay interrupted; it will start again')
      }
      pending = false
      await pause(pollMs)
    }
    await listening.stop()
  })()
  return {
    async stop() {
      stopping.abort()
      poke()
      await loop
    },
  }
}
