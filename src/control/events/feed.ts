/**
 * What an event stream of a project is made of: history from the table, then live from the bus, without a hole between
 * them and without duplicates. The position of an event is its SSE id.
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
  /** The kinds of events that the stream declares. */
  readonly kinds: readonly Kind[]
  /** Which of these events belong to this stream. Default: all. */
  readonly accepts?: (event: Reported) => boolean
  /** What the client gets first (event `snapshot`); read after the live subscription stands, so nothing falls between. */
  readonly snapshot: () => Promise<Omit<Snapshot, 'at'>>
}

const pageSize = 500
/** The bus does not keep events: what a broken connection swallowed is found in the table this soon. */
const missedCheckMs = 15_000

type FeedStream<Kind extends ProjectEventKind, Snapshot extends TSchema> = EventStream<
  { readonly snapshot: Snapshot; readonly gap: typeof EventGap } & Pick<typeof projectEventTable, Kind>
>

/** Runs until the client goes away. */
export async function feed<Kind extends ProjectEventKind, Snapshot extends TSchema>(
  deps: { readonly db: Db; readonly events: ProjectEvents },
  declared: FeedStream<Kind, Snapshot>,
  options: FeedOptions<Kind, Static<Snapshot>>,
): Promise<void> {
  const { projectId } = options
  // Only events of the kinds that the stream declares are sent, which rows of the table cannot say.
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

  /** True when something woke it, false when nothing came for `ms`. */
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

  /** What the table does not keep any more is lost to this stream, and it has to know. */
  const reportGap = async () => {
    const first = await oldest(deps.db)
    if (first > position + 1)
      stream.send({ event: 'gap', data: { after: position, first_kept: first, at: new Date().toISOString() } })
  }

  // Apart: what waits below would hold its data as long as the stream is open.
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
    // The one before it never came: the bus lost it, or its relay died between the table and the bus.
    if (message.previous > position) {
      await reportGap()
      if (!(await catchUp())) break
      continue
    }
    if (!send(message, () => sse)) break
  }
  await subscription.stop()
}
