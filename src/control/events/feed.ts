/**
 * What an event stream of a project is made of: history from the table, then live from the bus, without a hole between
 * them and without duplicates. The position of an event is its SSE id.
 */
import type { Bus } from '../../bus/bus.ts'
import type { Db } from '../../db/db.ts'
import type { EventStream } from '../http/operation.ts'
import { type EventMessage, eventSubject } from './relay.ts'
import { after, newest, oldest } from './store.ts'

type Told = Pick<EventMessage, 'kind' | 'appId' | 'deploymentId' | 'data'>

export interface FeedOptions {
  readonly projectId: string
  /** Which events of the project belong to this stream. */
  readonly accepts: (event: Told) => boolean
  /** What the client gets first (event `snapshot`); read after the live subscription stands, so nothing falls between. */
  readonly snapshot: () => Promise<unknown>
}

const pageSize = 500
/** The bus does not keep events: what a broken connection swallowed is found in the table this soon. */
const missedCheckMs = 15_000

/** Runs until the client goes away. */
export async function feed(deps: { db: Db; bus: Bus }, stream: EventStream, options: FeedOptions): Promise<void> {
  const { projectId, accepts } = options
  const queued: EventMessage[] = []
  let wake = () => {}
  const subscription = await deps.bus.subscribe(
    eventSubject(projectId),
    message => {
      queued.push(message.data as EventMessage)
      wake()
    },
    { signal: stream.signal },
  )
  stream.signal.addEventListener('abort', () => wake(), { once: true })

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
  const send = (event: Told & Pick<EventMessage, 'position' | 'at'>): boolean => {
    position = event.position
    if (!accepts(event)) return true
    return stream.send({
      event: event.kind,
      id: String(event.position),
      data: { ...event.data, at: event.at, app_id: event.appId, deployment_id: event.deploymentId },
    })
  }
  const catchUp = async (): Promise<boolean> => {
    for (;;) {
      const rows = await after(deps.db, projectId, position, pageSize)
      for (const row of rows) if (!send({ ...row, at: row.at.toISOString() })) return false
      if (rows.length < pageSize) return true
    }
  }

  /** What the table does not keep any more is lost to this stream, and it has to know. */
  const tellGap = async () => {
    const first = await oldest(deps.db)
    if (first > position + 1)
      stream.send({ event: 'gap', data: { after: position, first_kept: first, at: new Date().toISOString() } })
  }

  const resumeFrom = /^\d{1,15}$/.test(stream.lastEventId ?? '') ? Number(stream.lastEventId) : undefined
  let position = resumeFrom ?? (await newest(deps.db, projectId))
  if (resumeFrom !== undefined) await tellGap()
  const data = await options.snapshot()
  if (
    !stream.send({ event: 'snapshot', id: String(position), data: { at: new Date().toISOString(), ...asObject(data) } })
  )
    return
  if (resumeFrom !== undefined && !(await catchUp())) return

  while (!stream.signal.aborted) {
    const next = queued.shift()
    if (next === undefined) {
      if (await quiet(missedCheckMs)) continue
      if (!(await catchUp())) break
      continue
    }
    if (next.position <= position) continue
    // The one before it never came: the bus lost it, or its relay died between the table and the bus.
    if (next.previous > position) {
      await tellGap()
      if (!(await catchUp())) break
      continue
    }
    if (!send(next)) break
  }
  await subscription.stop()
}

const asObject = (data: unknown) => (Array.isArray(data) ? { items: data } : (data as Record<string, unknown>))
