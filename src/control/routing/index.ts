export { goneRoutes, startRoutePublisher } from './publisher.ts'
export { refresh as refreshRoute } from './store.ts'
