import { Value } from 'typebox/value'
import { type BuildInputs, BuildObserved, type BuildPut, subjects } from '../../contract/agent.ts'
import { minutes } from '../../lib/duration.ts'
import type { BuildDeps, SourceCredential } from './deps.ts'
import { uploadDigest } from './rules.ts'
import { valuesOf } from './settings.ts'
import { builtRepository } from '../vms/index.ts'
import { type Build, hostCount } from './store.ts'

/** Client for the builds on a host. Both methods return the state of the build that the host reports. */
export interface BuildHost {
  put(build: Build, signal: AbortSignal): Promise<BuildObserved>
  /**
   * Stops the build and removes what it left on the host. The message has a newer generation than that of `put`, so a
   * delayed `put` message cannot restart the build.
   */
  remove(build: Build, signal: AbortSignal): Promise<BuildObserved>
}

const answerMs = 5000

function sourceOf({ gitUrl, gitBranch, gitCommit }: Build) {
  const upload = uploadDigest(gitUrl)
  return upload === undefined
    ? { url: gitUrl, branch: gitBranch, commit: gitCommit }
    : { upload, url: '', branch: '', commit: '' }
}

export function buildHost(deps: BuildDeps): BuildHost {
  const { config, bus } = deps
  const report = async (hostId: string, put: BuildPut, signal: AbortSignal) =>
    Value.Parse(
      BuildObserved,
      await bus.request(subjects.hostIn(hostId, 'build.put'), put, { timeoutMs: answerMs, signal }),
    )
  const desired = (
    build: Build,
    credential: SourceCredential | undefined,
    settings: BuildInputs | undefined,
    repository: string | null,
  ): BuildPut['spec'] => ({
    projectId: build.projectId,
    appId: build.appId,
    deploymentId: build.deploymentId,
    hypervisor: placed(build).hypervisor,
    source: {
      ...sourceOf(build),
      ...(credential === undefined ? {} : 'password' in credential ? { auth: credential } : { ssh: credential }),
      submodules: build.gitSubmodules,
      allowPrivate: config.privateGitHosts,
    },
    vcpus: build.vcpus,
    memoryMib: build.memoryMib,
    diskMib: build.diskMib,
    timeLimitMs: minutes(config.buildTimeoutMinutes),
    ...(settings ? { settings } : {}),
    repository,
    ...(repository !== null && config.registry === '' ? { signIn: true } : {}),
  })
  return {
    async put(build, signal) {
      // The host needs the credential only until it has fetched the source. After that, an unavailable git host must
      // not delay the build.
      const isFetched = build.state === 'building' || build.state === 'pushing'
      const auth = await deps.sourceAuth(build).catch((cause: unknown) => {
        if (isFetched) return undefined
        throw cause
      })
      const { id, generation } = build
      const repository = builtRepository(config, build.appId, await hostCount(deps.db))
      const spec = desired(build, auth, await inputsOf(deps, build), repository)
      return report(placed(build).hostId, { buildId: id, generation, want: 'present', spec }, signal)
    },
    remove(build, signal) {
      const spec = desired(build, undefined, undefined, null)
      const put: BuildPut = { buildId: build.id, generation: build.generation + 1, want: 'absent', spec }
      return report(placed(build).hostId, put, signal)
    },
  }
}

/** Returns the build arguments and secrets with their values. @throws Error if the deployment lacks a named variable */
async function inputsOf({ db, vault }: BuildDeps, build: Build): Promise<BuildInputs | undefined> {
  const { settings, deploymentId } = build
  if (!settings) return undefined
  const { dockerfile, args, env, secrets } = settings
  const sealed = await valuesOf(db, deploymentId, [...env, ...secrets])
  const values = new Map(sealed.map(({ name, value }) => [name, vault.open('app.env', value)]))
  const named = (names: readonly string[]) =>
    Object.fromEntries(
      names.map(name => {
        const value = values.get(name)
        if (value === undefined) throw new Error(`BUG: the deployment ${deploymentId} has no variable ${name}`)
        return [name, value]
      }),
    )
  return { dockerfile, args: { ...args, ...named(env) }, secrets: named(secrets) }
}

function placed({ id, hostId, hypervisor }: Build) {
  if (!hostId || !hypervisor) throw new Error(`BUG: build ${id} has no host`)
  return { hostId, hypervisor }
}
