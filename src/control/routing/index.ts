/** Routes of apps, their publication to gateways, and reports about traffic. */
export { createDrains, type Drains, drainDecision } from './drain.ts'
export { type RequestLoad, createRequestLoad } from './load.ts'
export { goneRoutes, startRoutePublisher } from './publisher.ts'
export { refresh as refreshRoute } from './store.ts'
