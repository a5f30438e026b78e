export { deadHosts } from './dead-hosts.ts'
export { hostFeature } from './routes.ts'
export { startHostReceiver } from './receiver.ts'
