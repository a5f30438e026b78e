/** The events that the server adds to every stream, and the check of the handlers' events. */
import { Type } from 'typebox'
import { Compile } from 'typebox/schema'
import { lazily } from '../../lib/once.ts'
import { describeFaults } from '../../lib/faults.ts'
import type { EventTable, SseEvent } from './operation.ts'
import { dateTime, oneOf, resource } from './types.ts'

const SlowReaderGap = resource(
  'SlowReaderGap',
  {
    reason: oneOf(['slow_reader'], { description: 'The client reads more slowly than events arrive.' }),
    at: dateTime({ description: 'When the stream was closed.' }),
  },
  {
    description:
      'Last event before the server closes the stream. Connect again with `Last-Event-ID` to resume after it.',
  },
)

/** The declared events of an operation plus those that the server adds (sse.ts). */
export const withFrameEvents = (events: EventTable = {}): EventTable => ({
  ...events,
  gap: events['gap'] ? Type.Union([events['gap'], SlowReaderGap]) : SlowReaderGap,
})

/** For tests: checks that a stream sends only events that its operation declares. @throws Error `BUG: ...` */
export function eventCheck(id: string, events: EventTable): (event: SseEvent) => void {
  const validators = Object.entries(events).map(
    ([name, schema]) => [name, { schema, validator: lazily(() => Compile(schema)) }] as const,
  )
  const known = new Map(validators)
  return ({ event, data }) => {
    const declared = known.get(event)
    if (!declared) throw new Error(`BUG: ${id} sends the event ${event}, which it does not declare`)
    if (data === undefined) return
    const sent: unknown = JSON.parse(JSON.stringify(data))
    const validator = declared.validator()
    if (validator.Check(sent)) return
    const faults = describeFaults(declared.schema, validator.Errors(sent)[1]).map(one => `${one.field} ${one.message}`)
    throw new Error(`BUG: the event ${event} of ${id} is not what it declares: ${faults.join('; ')}`)
  }
}
