/** Builds on a simulated host. The test decides when they advance. */
import type { Bus, Subscription } from '../../../src/bus/bus.ts'
import { type BuildObserved, type BuildPut, subjects } from '../../../src/contract/agent.ts'

export interface SimBuilds {
  readonly builds: Map<string, SimBuild>
  /** Advances every build by one state: fetching, building, pushing, succeeded or failed. */
  tick(): void
  stop(): Promise<void>
}

export interface SimBuild {
  put: BuildPut
  state: BuildObserved['state']
}

const next: Partial<Record<BuildObserved['state'], BuildObserved['state']>> = {
  fetching: 'building',
  building: 'pushing',
  pushing: 'succeeded',
}

/** Serves build requests to the host. Builds of repositories whose URL ends with `broken` fail. */
export async function simBuilds(bus: Bus, hostId: string): Promise<SimBuilds> {
  const builds = new Map<string, SimBuild>()
  const gone = new Map<string, number>()
  const observed = (buildId: string): BuildObserved => {
    const build = builds.get(buildId)
    const { branch = '', commit = '' } = build?.put.spec.source ?? {}
    const isFetched = build !== undefined && build.state !== 'fetching'
    return {
      buildId,
      generation: build?.put.generation ?? gone.get(buildId) ?? 0,
      state: build?.state ?? 'absent',
      image: build?.state === 'succeeded' ? `registry.example/app@sha256:${'ab'.repeat(32)}` : null,
      commit: isFetched
        ? { branch: branch || 'main', hash: commit || 'c0ffee'.repeat(7).slice(0, 40), message: 'm' }
        : null,
      error: build?.state === 'failed' ? 'npm ended with 1' : null,
    }
  }
  const answer = (put: BuildPut): BuildObserved => {
    const known = Math.max(builds.get(put.buildId)?.put.generation ?? 0, gone.get(put.buildId) ?? 0)
    if (put.generation < known) throw new Error('stale_generation')
    if (put.want === 'absent') {
      builds.delete(put.buildId)
      gone.set(put.buildId, put.generation)
    } else if (put.generation > known) builds.set(put.buildId, { put, state: 'fetching' })
    return observed(put.buildId)
  }
  const subscription: Subscription = await bus.serve(subjects.hostIn(hostId, 'build.put'), data =>
    answer(data as BuildPut),
  )
  return {
    builds,
    tick() {
      for (const build of builds.values()) {
        const isBroken = build.state === 'building' && build.put.spec.source.url.endsWith('broken')
        build.state = isBroken ? 'failed' : (next[build.state] ?? build.state)
      }
    },
    stop: () => subscription.stop(),
  }
}
