/** What may be done with a deployment now, by the server's own table, and the reason when not. Pure. */
import {
  can,
  type DeploymentStatus,
  deploymentStatuses,
  type DeploymentVerb,
} from '../../../../src/contract/deployments.ts'

const isStatus = (text: string): text is DeploymentStatus => deploymentStatuses.some(status => status === text)

const pastTenses: Readonly<Record<DeploymentVerb, string>> = {
  stop: 'stopped',
  cancel: 'cancelled',
  pause: 'paused',
  resume: 'resumed',
  delete: 'deleted',
  activate: 'activated',
}

/** Allowed by the server because they are done already; a button for them would do nothing. */
const done: Readonly<Partial<Record<DeploymentVerb, readonly string[]>>> = {
  stop: ['stopping', 'stopped', 'superseded', 'failed', 'cancelled'],
  pause: ['pausing', 'paused'],
  resume: ['running', 'resuming'],
}

/** @returns why the verb is not possible, or undefined when it is */
export function whyNot(verb: DeploymentVerb, status: string, isServing = false): string | undefined {
  if (!isStatus(status)) return `It is ${status}.`
  if (verb === 'activate' && isServing) return 'It serves already.'
  const possible: readonly DeploymentStatus[] = can[verb]
  if (possible.includes(status) && !done[verb]?.includes(status)) return undefined
  if (done[verb]?.includes(status)) return `It is ${status} already.`
  return `A deployment that is ${status} cannot be ${pastTenses[verb]}. Possible while: ${possible.filter(one => !done[verb]?.includes(one)).join(', ')}.`
}
