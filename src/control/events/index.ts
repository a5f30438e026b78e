/** Project events: the outbox, its relay to the bus, and the event streams. */
export { feed } from './feed.ts'
export { projectEvents } from './project-events.ts'
export { type EventMessage, startRelay } from './relay.ts'
export { type NewEvent, publishEvent } from './store.ts'
export { eventRetention } from './sweep.ts'
