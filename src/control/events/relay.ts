/**
 * The relay of the outbox (the event table). One process in the cluster (holding an advisory lock) assigns positions to
 * new events and publishes them on the bus; NOTIFY wakes it. A crash between commit and publish loses nothing: streams
 * read the table when they start and when they notice a gap.
 */
import type { Deps } from '../base/deps.ts'
import { hasUnplaced, place, type PlacedEvent } from './store.ts'

const batch = 500
/**
 * Retry interval while an older transaction is open. Its events would get earlier positions, so later events have to
 * wait.
 */
const settleMs = 2
/**
 * Interval at which the relay checks the event table without a NOTIFY (whose connection may be lost), and at which
 * other processes try to take over from a relay that crashed.
 */
const pollMs = 1000

export const eventSubject = (projectId: string) => `event.${projectId}.batch`

/**
 * An event in a bus message: its row, with the time as text. A message contains events of one project, oldest first.
 */
export type EventMessage = Omit<PlacedEvent, 'at'> & { readonly at: string }

/** Maximum length of a bus message in characters. NATS limits a message to 1 MiB. */
const messageLength = 1 << 18

/**
 * Groups events into few bus messages, so that a burst of events costs each reader one system call instead of one per
 * event.
 * @param rows in the order of their positions
 */
export function messagesOf(rows: readonly PlacedEvent[]): { projectId: string; events: EventMessage[] }[] {
  return [...Map.groupBy(rows, row => row.projectId)].flatMap(([projectId, own]) => {
    const messages: { projectId: string; events: EventMessage[] }[] = []
    let room = 0
    for (const row of own) {
      const event = { ...row, at: row.at.toISOString() }
      const length = JSON.stringify(event).length
      if (length > room) {
        messages.push({ projectId, events: [] })
        room = messageLength
      }
      room -= length
      messages.at(-1)?.events.push(event)
    }
    return messages
  })
}

export async function startRelay(deps: Pick<Deps, 'db' | 'bus' | 'log'>): Promise<{ stop(): Promise<void> }> {
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
      for (const { projectId, events } of messagesOf(rows)) await deps.bus.publish(eventSubject(projectId), events)
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
  const listening = await deps.db.listen('event', poke)
  const loop = (async () => {
    while (!stopping.signal.aborted) {
      try {
        await deps.db.withLock('event-relay', hold)
      } catch (cause) {
        deps.log.warn({ err: cause }, 'event relay interrupted; it will restart')
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
