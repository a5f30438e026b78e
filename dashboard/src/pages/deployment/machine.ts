/**
 * Why operations on a running VM are currently not possible, by the same rules as the server (vm-operations/job.ts).
 * Pure.
 */
const withMachine = ['running', 'unhealthy', 'paused', 'pausing', 'resuming', 'migrating']

export const whyNoMachine = (status: string): string | undefined =>
  withMachine.includes(status) ? undefined : `There is no virtual machine while the deployment is ${status}.`

export const whyNotRunning = (status: string): string | undefined =>
  ['running', 'unhealthy'].includes(status)
    ? undefined
    : status === 'paused'
      ? 'The virtual machine is paused. Resume it first.'
      : (whyNoMachine(status) ?? `The virtual machine is ${status}. Wait until it runs.`)
