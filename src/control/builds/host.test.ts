/** Tests to which repository a host pushes the image of a build, and with which credential. */
import { expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import type { BuildPut } from '../../contract/agent.ts'
import { newId } from '../../lib/ids.ts'
import { buildHost } from './host.ts'
import type { Build } from './store.ts'

it.each([
  { registryUrl: 'http://own.example:7050', hosts: 1, repository: null, signIn: undefined },
  { registryUrl: 'http://own.example:7050', hosts: 2, repository: 'own.example:7050/mote.builds', signIn: true },
  { registry: 'other.example/apps', hosts: 2, repository: 'other.example/apps', signIn: undefined },
])(
  'the image of a build is pushed to the repository that the configuration names: %o',
  async ({ hosts, repository, signIn, ...config }) => {
    await using world = await computeWorld(config)
    for (let n = 0; n < hosts; n++) await world.addHost()
    const puts: BuildPut[] = []
    const bus = {
      ...world.deps.bus,
      request: async (_: string, put: unknown) => {
        puts.push(put as BuildPut)
        return { buildId: 'b', generation: 1, state: 'fetching', image: null, commit: null, error: null }
      },
    }
    const app = await world.app()
    const build: Build = {
      id: newId(),
      projectId: app.projectId,
      appId: app.id,
      deploymentId: newId(),
      gitUrl: 'https://git.example/a',
      gitBranch: '',
      gitCommit: '',
      gitSubmodules: false,
      settings: null,
      scmInstallationId: null,
      scmRepoFullName: null,
      vcpus: 1,
      memoryMib: 1024,
      diskMib: 1024,
      state: 'fetching',
      hostId: newId(),
      hypervisor: 'fake',
      holds: true,
      generation: 1,
      hostsLost: 0,
      startedAt: null,
      isUnwanted: false,
      hostLost: false,
      hostRemoved: false,
    }
    await buildHost({ ...world.deps, bus, sourceAuth: async () => undefined }).put(build, AbortSignal.timeout(5000))
    expect(puts.map(({ spec }) => [spec.repository, spec.signIn])).toEqual([
      [repository === null ? null : `${repository}/${app.id}`, signIn],
    ])
  },
)
