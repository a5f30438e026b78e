/**
 * The build workflow: waits for its turn and for capacity, has a host run the build, records the host's progress, and
 * finally has the host remove everything except the log. The deployment waits for the result and decides how to
 * continue.
 */
import type { BuildObserved } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { type Next, done, go, workflow, wait } from '../../engine/workflow.ts'
import { poke } from '../../engine/runner.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import { abandon, listHosts, release, reserve } from '../hosts/index.ts'
import { place } from '../scheduler/place.ts'
import { type BuildHost, buildHost } from './host.ts'
import type { BuildDeps } from './deps.ts'
import { hostLines, keepLines, keptLines } from './log.ts'
import type { Build } from './store.ts'
import * as store from './store.ts'

/** Interval of attempts to place the build: nothing pokes the workflow when a host gets free capacity. */
const placementRetryMs = seconds(2)
/**
 * Interval of requests to the host that runs the build. Changes poke the workflow, but a host that was restarted starts
 * the build again only at the next request.
 */
const pollIntervalMs = seconds(5)
/**
 * Time that a host gets beyond the build's time limit, which the host enforces itself. A host that exceeds both does
 * not work properly.
 */
const graceMs = minutes(5)
/** Number of lost hosts after which a build fails and is not retried. */
const mostHostsLost = 2
const mostLogTries = 2

/**
 * Phases that may follow each other while a host runs the build. Each may follow every other, because a restarted host
 * starts the build from the beginning.
 */
const followedEdges = ['queueing', 'fetching', 'building', 'pushing', 'clearing'] as const
type Following = (typeof followedEdges)[number]

export const buildWorkflow = (deps: BuildDeps) => {
  const host = buildHost(deps)
  const limitMs = minutes(deps.config.buildTimeoutMinutes) + graceMs
  const followed = (phase: 'fetching' | 'building' | 'pushing') => follow(host, limitMs, phase)

  return workflow<Build>()({
    kind: 'build',
    edges: {
      queueing: ['fetching', 'clearing'],
      fetching: followedEdges,
      building: followedEdges,
      pushing: followedEdges,
      clearing: [],
    },
    load: id => store.byId(deps.db, id),
    preempt: build => (build.isUnwanted || isOver(build) ? 'clearing' : undefined),
    phases: {
      async queueing({ subject: build }): Promise<Next<'fetching' | 'clearing'>> {
        if (build.holds) return go('fetching')
        if (build.hostsLost >= mostHostsLost) return go('clearing', fail(build, 'The hosts of the build were lost.'))
        // When the app's running build ends, it pokes this workflow.
        if (await store.running(deps.db, build.appId)) return wait(seconds(30))
        const size = { vcpus: build.vcpus, memoryMib: build.memoryMib, diskMib: build.diskMib }
        const { host: found } = place(await listHosts(deps.db, deps.config.hostTimeoutSeconds), {
          ...size,
          hypervisor: undefined,
          siblings: new Set<string>(),
          needs: ['raw-drives'],
        })
        if (!found) return wait(placementRetryMs)
        return go('fetching', async tx => {
          if (!(await store.claim(tx, build.id, found.id, found.hypervisor)))
            throw new Error('the build was superseded in the meantime')
          if (!(await reserve(tx, found.id, size))) throw new Error(`host ${found.name} filled up in the meantime`)
          await poke(tx, 'deployment', build.deploymentId)
        })
      },

      fetching: followed('fetching'),
      building: followed('building'),
      pushing: followed('pushing'),

      async clearing({ subject: build, attempt, signal }) {
        if (build.holds && !build.hostLost) {
          // The `remove` message has a newer generation than all earlier messages, so a delayed one cannot restart the
          // build.
          if ((await host.remove(build, signal)).state !== 'absent') return wait(pollIntervalMs)
        }
        const log = await lastLines(deps, build, attempt, signal)
        return done(async tx => {
          if (log) await keepLines(tx, build.id, log)
          await giveBack(tx, build)
          await store.end(tx, build.id, { state: 'cancelled' })
          await poke(tx, 'deployment', build.deploymentId)
          await pokeNext(tx, build)
        })
      },
    },
  })
}

/**
 * Fetches the build's log from its host, which deletes it later. After two failed attempts the build ends without a
 * stored log.
 */
async function lastLines(deps: BuildDeps, { id, hostId, hostLost }: Build, attempt: number, signal: AbortSignal) {
  if (hostId === null || hostLost) return undefined
  try {
    return await hostLines(deps, { id, hostId }, keptLines, signal)
  } catch (cause) {
    if (attempt < mostLogTries) throw cause
    return undefined
  }
}

const isOver = ({ state }: Build) =>
  state === 'succeeded' || state === 'failed' || state === 'cancelled' || state === 'superseded'

const follow =
  (host: BuildHost, limitMs: number, phase: 'fetching' | 'building' | 'pushing') =>
  async (step: { subject: Build; now: Date; signal: AbortSignal }): Promise<Next<Following>> => {
    const { subject: build, now, signal } = step
    if (build.hostLost) return go('queueing', tx => leaveLostHost(tx, build))
    if (build.startedAt && now.getTime() - build.startedAt.getTime() > limitMs)
      return go('clearing', fail(build, 'The build exceeded its time limit.'))
    const observed = await host.put(build, signal)
    const record = recorded(build, observed)
    if (observed.state === 'succeeded' || observed.state === 'failed') return go('clearing', record)
    if (observed.state === 'absent') throw new Error('the host no longer knows the build; sending it again')
    return observed.state === phase ? wait(pollIntervalMs, record) : go(observed.state, record)
  }

const recorded = (build: Build, observed: BuildObserved) => async (tx: Tx) => {
  if (observed.commit) await store.commit(tx, build.id, observed.commit)
  if (observed.state === 'succeeded' && observed.image)
    await store.end(tx, build.id, { state: 'succeeded', image: observed.image })
  else if (observed.state === 'failed' || observed.state === 'succeeded')
    await store.end(tx, build.id, { state: 'failed', error: observed.error ?? 'The build failed.' })
  else if (observed.state !== 'absent') await store.moved(tx, build.id, observed.state)
  await poke(tx, 'deployment', build.deploymentId)
}

const fail = (build: Build, error: string) => async (tx: Tx) => {
  await store.end(tx, build.id, { state: 'failed', error })
  await poke(tx, 'deployment', build.deploymentId)
}

/**
 * Queues the build again. Its resources on the lost host stay reserved until the host reports the build gone or is
 * removed, because the host may still run it.
 */
async function leaveLostHost(tx: Tx, build: Build): Promise<void> {
  if (build.hostId && build.holds && !build.hostRemoved) await abandon(tx, build.hostId, build)
  await store.waitAgain(tx, build.id)
}

async function giveBack(tx: Tx, build: Build): Promise<void> {
  if (!build.hostId || !(await store.releaseHold(tx, build.id))) return
  if (!build.hostLost) await release(tx, build.hostId, build)
  else if (!build.hostRemoved) await abandon(tx, build.hostId, build)
}

async function pokeNext(tx: Tx, build: Build): Promise<void> {
  const id = await store.next(tx, build.appId)
  if (id) await poke(tx, 'build', id)
}
