/**
 * The event stream of a project: first earlier events from the table, then live ones from the bus, without gaps or
 * duplicates. The SSE id of an event is its position in the table.
 */
import type { Db } from '../../db/db.ts'
import type { Static, TSchema } from 'typebox'
import type { EventStream, SseEvent } from '../http/operation.ts'
import { type LiveEvent, type ProjectEvents, sseOf } from './project-events.ts'
import type { EventMessage } from './relay.ts'
import type { EventGap, ProjectEventKind, projectEventTable } from './schema.ts'
import { after, newest, oldest } from './store.ts'

type Reported = Pick<EventMessage, 'kind' | 'appId' | 'deploymentId' | 'data'>

export interface FeedOptions<Kind extends ProjectEventKind, Snapshot> {
  readonly projectId: string
  /** Kinds of events that the stream sends. */
  readonly kinds: readonly Kind[]
  /** Returns whether the stream sends an event of these kinds. Default: all of them. */
  readonly accepts?: (event: Reported) => boolean
  /**
   * Returns the data of the stream's first event (`snapshot`). It is called when the subscription to live events is
   * active, so that no event is missed.
   */
  readonly snapshot: () => Promise<Omit<Snapshot, 'at'>>
}

const pageSize = 500
/**
 * Interval at which the stream reads the event table while no event arrives. The bus does not store messages, so events
 * that were lost with a broken connection are found only in the table.
 */
const missedCheckMs = 15_000

type FeedStream<Kind extends ProjectEventKind, Snapshot extends TSchema> = EventStream<
  { readonly snapshot: Snapshot; readonly gap: typeof EventGap } & Pick<typeof projectEventTable, Kind>
>

/** Sends events until the client disconnects. */
export async function feed<Kind extends ProjectEventKind, Snapshot extends TSchema>(
  deps: { readonly db: Db; readonly events: ProjectEvents },
  declared: FeedStream<Kind, Snapshot>,
  options: FeedOptions<Kind, Static<Snapshot>>,
): Promise<void> {
  const { projectId } = options
  // The stream's type is widened: only events of its declared kinds are sent, but the type of the table's rows does not
  // express that.
  const stream: EventStream = declared
  const kinds: ReadonlySet<string> = new Set(options.kinds)
  const accepts = (event: Reported) => kinds.has(event.kind) && (options.accepts?.(event) ?? true)
  const queued: LiveEvent[] = []
  let wake = () => {}
  const subscription = await deps.events.follow(projectId, events => {
    queued.push(...events)
    wake()
  })
  const leave = () => {
    wake()
    void subscription.stop()
  }
  stream.signal.addEventListener('abort', leave, { once: true })
  if (stream.signal.aborted) leave()

  /** Waits for an event. Resolves with true when one arrives, or with false if none arrives within `ms`. */
  const quiet = (ms: number) =>
    new Promise<boolean>(resolve => {
      const timer = setTimeout(() => resolve(false), ms)
      wake = () => {
        clearTimeout(timer)
        resolve(true)
      }
      if (queued.length > 0 || stream.signal.aborted) wake()
    })
  const send = (event: Reported & Pick<EventMessage, 'position' | 'at'>, sse: () => SseEvent): boolean => {
    position = event.position
    return !accepts(event) || stream.send(sse())
  }
  const catchUp = async (): Promise<boolean> => {
    for (;;) {
      const rows = await after(deps.db, projectId, position, pageSize)
      for (const row of rows) {
        const event = { ...row, at: row.at.toISOString() }
        if (!send(event, () => sseOf(event))) return false
      }
      if (rows.length < pageSize) return true
    }
  }

  /** Reports a gap to the client if the table no longer contains the events after the stream's position. */
  const reportGap = async () => {
    const first = await oldest(deps.db)
    if (first > position + 1)
      stream.send({ event: 'gap', data: { after: position, first_kept: first, at: new Date().toISOString() } })
  }

  // This is a separate function, so that the snapshot's data is not kept in memory while the stream is open.
  const greet = async (): Promise<boolean> => {
    const data = await options.snapshot()
    const at = new Date().toISOString()
    return stream.send({ event: 'snapshot', id: String(position), data: { at, ...data } })
  }

  const resumeFrom = /^\d{1,15}$/.test(stream.lastEventId ?? '') ? Number(stream.lastEventId) : undefined
  let position = resumeFrom ?? (await newest(deps.db, projectId))
  if (resumeFrom !== undefined) await reportGap()
  if (!(await greet())) return
  if (resumeFrom !== undefined && !(await catchUp())) return

  while (!stream.signal.aborted) {
    const next = queued.shift()
    if (next === undefined) {
      if (await quiet(missedCheckMs)) continue
      if (!(await catchUp())) break
      continue
    }
    const { message, sse } = next
    if (message.position <= position) continue
    // The stream has missed the event before this one: the bus lost it, or the relay crashed before publishing it.
    if (message.previous > position) {
      await reportGap()
      if (!(await catchUp())) break
      continue
    }
    if (!send(message, () => sse)) break
  }
  await subscription.stop()
}
