/** Derives the progress of a deployment from the server's live status. Pure. */
import type { Build, LiveDeploymentStatus } from '@mote/client'

export interface Step {
  readonly name: string
  readonly state: 'done' | 'now' | 'next' | 'failed'
  readonly ms: number | undefined
}

/** Labels for the steps that a host reports (`steps` of the live status). A host omits steps that it did not need. */
const hostSteps = [
  ['image', 'Image fetched'],
  ['base', 'Base disk created'],
  ['disk', 'Writable disk created'],
  ['spawn', 'VM process started'],
  ['boot', 'System booted'],
  ['healthy', 'Health check passed'],
] as const

/** Steps of a build, in order. */
const buildSteps = [
  ['fetching', 'Source fetched'],
  ['building', 'Image built'],
  ['pushing', 'Image stored'],
] as const

/** The steps of a build. A failed build does not report the failed step, only whether it had fetched a commit. */
function stepsOfBuild({ status, git_commit_hash }: Build): Step[] {
  const at = buildSteps.findIndex(([name]) => name === status)
  const reached = status === 'succeeded' ? buildSteps.length : at === -1 ? Number(git_commit_hash !== '') : at
  return buildSteps.map(([, name], index) => ({ name, state: index < reached ? 'done' : 'next', ms: undefined }))
}

const settled = new Set([
  'running',
  'paused',
  'pausing',
  'resuming',
  'sleeping',
  'migrating',
  'unhealthy',
  'superseded',
  'stopped',
])
const ended = new Set(['failed', 'cancelled'])

export const isOnTheWay = (status: string) => ['pending', 'building', 'scheduled', 'starting'].includes(status)

/**
 * All steps of a deployment. @param build the build of the deployment's image; undefined if an existing image is
 * deployed
 */
export function stepsOf(live: LiveDeploymentStatus, build?: Build): readonly Step[] {
  const done = new Map(live.steps.map(step => [step.name, step.ms]))
  const isUp = settled.has(live.status) && live.started_at > 0
  const reached = Math.max(-1, ...hostSteps.map(([name], index) => (done.has(name) ? index : -1)))
  const names: Step[] = [
    { name: 'Accepted', state: 'done', ms: undefined },
    ...(build ? stepsOfBuild(build) : []),
    { name: 'Placed on a host', state: live.host_id || live.scheduled_at > 0 ? 'done' : 'next', ms: undefined },
  ]
  // If the start failed before the host reported any step, show the whole start as one failed step.
  const isUnreported = ended.has(live.status) && done.size === 0
  if (isUnreported) names.push({ name: 'Started', state: 'next', ms: undefined })
  for (const [index, [name, text]] of isUnreported ? [] : hostSteps.entries()) {
    const wasSkipped = !done.has(name) && (isUp || index < reached)
    if (!wasSkipped) names.push({ name: text, state: done.has(name) ? 'done' : 'next', ms: done.get(name) })
  }
  names.push({ name: 'Online', state: isUp ? 'done' : 'next', ms: undefined })
  const first = names.findIndex(step => step.state === 'next')
  const now = ended.has(live.status) ? 'failed' : isOnTheWay(live.status) ? 'now' : 'next'
  return names.map((step, index) => (index === first ? { ...step, state: now } : step))
}
