/** Decides how many VMs an app runs: autoscaling, scale to zero, and wake-up by requests. */
export { autoscaler } from './autoscaler.ts'
export { idleApps, recordTraffic, startGatewayReceiver, wakeApp, wakeAppNow } from './wake.ts'
