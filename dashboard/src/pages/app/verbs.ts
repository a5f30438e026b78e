/** Which operations a deployment allows, by the table that the server also uses, and why others are disabled. Pure. */
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

/** States in which the server allows an operation although it has no effect. */
const done: Readonly<Partial<Record<DeploymentVerb, readonly string[]>>> = {
  stop: ['stopping', 'stopped', 'superseded', 'failed', 'cancelled'],
  pause: ['pausing', 'paused'],
  resume: ['running', 'resuming'],
}

/** Checks an operation. @returns why it is not possible, or undefined if it is */
export function whyNot(verb: DeploymentVerb, status: string, isServing = false): string | undefined {
  if (!isStatus(status)) return `It is ${status}.`
  if (verb === 'activate' && isServing) return 'It is already serving.'
  const possible: readonly DeploymentStatus[] = can[verb]
  if (possible.includes(status) && !done[verb]?.includes(status)) return undefined
  if (done[verb]?.includes(status)) return `It is already ${status}.`
  return `A deployment that is ${status} cannot be ${pastTenses[verb]}. Possible while: ${possible.filter(one => !done[verb]?.includes(one)).join(', ')}.`
}

/** The deployment before the active one that can serve again; undefined if there is none. */
export function rollbackTarget<T extends { readonly id: string; readonly status: string }>(
  newestFirst: readonly T[],
  activeId: string | null | undefined,
): T | undefined {
  const at = newestFirst.findIndex(one => one.id === activeId)
  if (at < 0) return undefined
  return newestFirst
    .slice(at + 1)
    .find(one => !['failed', 'cancelled'].includes(one.status) && whyNot('activate', one.status) === undefined)
}
