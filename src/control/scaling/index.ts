/** How many VMs an app runs: autoscaling, sleep without requests, and the wake-up by a request. */
export { autoscaler } from './autoscaler.ts'
export { idleApps, recordTraffic, startGatewayReceiver, wakeApp, wakeAppNow } from './wake.ts'
