export { feed } from './feed.ts'
export { type EventMessage, startRelay } from './relay.ts'
export { type NewEvent, publishEvent } from './store.ts'
export { eventRetention } from './sweep.ts'
