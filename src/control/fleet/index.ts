/** The hosts of the installation: their API, heartbeats, loss and return. */
export { deadHosts } from './dead-hosts.ts'
export { hostWorkflow } from './lost-host.ts'
export { hostFeature } from './routes.ts'
export { reconcileHost, startHostReceiver } from './receiver.ts'
