/** Build settings: which ones are refused, and which of them the host gets. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ComputeWorld, computeWorld } from '../../../test/support/compute.ts'
import type { BuildPut } from '../../contract/agent.ts'
import { lock } from '../apps/store.ts'
import { put as putEnv } from '../apps/env-store.ts'
import type { DeployCall } from '../deployments/index.ts'
import { buildHost } from './host.ts'
import { type BuildSettingsRequest, buildSettingsOf, deployFromSource } from './index.ts'
import { byId } from './store.ts'

describe('build settings', () => {
  it.each<[BuildSettingsRequest, string]>([
    [{ dockerfile: '../Dockerfile' }, 'build/dockerfile: must be a path in the source'],
    [{ dockerfile: '/Dockerfile' }, 'build/dockerfile: must be a path in the source'],
    [{ args: { 'a-b': '1' } }, 'build/args: "a-b" must have letters'],
    [{ args: { A: 'x'.repeat(32_769) } }, 'build/args: can have at most 32768 bytes'],
    [{ env: ['A'], secrets: ['A'] }, 'build/secrets: A is in build/env already'],
    [{ env: ['A', 'A'] }, 'build/env: A is in build/env already'],
  ])('are refused if a value is invalid: %j', (request, message) => {
    expect(() => buildSettingsOf(request)).toThrow(message)
  })

  it('are stored as null when all fields are empty', () => {
    expect(buildSettingsOf({ dockerfile: '', args: {}, env: [], secrets: null })).toBeNull()
  })
})

describe('a build with settings', () => {
  let world: ComputeWorld
  let host: { readonly id: string }
  beforeAll(async () => {
    world = await computeWorld()
    host = await world.addHost()
  })
  afterAll(() => world[Symbol.asyncDispose]())

  const call = (): DeployCall => ({
    project: { id: world.projectId },
    caller: { via: { kind: 'session' } },
    traceparent: '00-1-1-01',
    audit: () => undefined,
  })
  const appWith = async (build: BuildSettingsRequest, variables: Readonly<Record<string, boolean>>) => {
    const made = await world.app()
    const settings = JSON.stringify(buildSettingsOf(build))
    await world.rows(
      `UPDATE app SET git_url = 'https://git.example/a.git', build = $2 WHERE id = $1`,
      made.id,
      settings,
    )
    await set(made.id, variables)
    return made
  }
  const set = (id: string, variables: Readonly<Record<string, boolean>>, value = 'value of') =>
    world.db.tx(async tx => {
      for (const [name, isPlain] of Object.entries(variables))
        await putEnv(tx, id, { name, sealed: world.deps.vault.seal('app.env', `${value} ${name}`), isPlain })
    })
  const ask = ({ projectId, name }: { projectId: string; name: string }) =>
    world.db.tx(async tx => {
      const row = await lock(tx, projectId, name)
      if (!row) throw new Error('no app')
      return deployFromSource(world.deps, call(), tx, row, { body: {} })
    })

  it.each<[BuildSettingsRequest, string]>([
    [{ secrets: ['NPM_TOKEN'] }, 'build/secrets: the app has no variable NPM_TOKEN.'],
    [{ env: ['URL'] }, 'build/env: the app has no variable URL.'],
    [{ env: ['TOKEN'] }, 'build/env: TOKEN is a secret'],
  ])(
    'is refused at once when it names a missing variable, or uses a secret as a build argument: %j',
    async (build, message) => {
      const made = await appWith(build, { TOKEN: false })
      await expect(ask(made)).rejects.toMatchObject({ status: 400, message: expect.stringContaining(message) })
      expect(await world.rows(`SELECT id FROM deployment WHERE app_id = $1`, made.id)).toEqual([])
    },
  )

  it('sends the host only the variables that the settings name, with their values at the time of the deployment', async () => {
    const settings = { dockerfile: 'web.Dockerfile', args: { LEVEL: '1' }, env: ['URL'], secrets: ['TOKEN'] }
    const made = await appWith(settings, { TOKEN: false, URL: true, OTHER: false })
    const { deployment_id } = await ask(made)
    await set(made.id, { TOKEN: false }, 'later value of')
    const [row] = await world.rows<{ id: string }>(`SELECT id FROM build WHERE deployment_id = $1`, deployment_id)
    const build = await byId(world.db, row?.id ?? '')
    if (!build) throw new Error('no build')
    const sent: BuildPut[] = []
    const bus = {
      ...world.deps.bus,
      request: async (_subject: string, put: BuildPut) => {
        sent.push(put)
        return { buildId: build.id, generation: 1, state: 'fetching', image: null, commit: null, error: null }
      },
    } as typeof world.deps.bus
    const sending = buildHost({ ...world.deps, bus, sourceAuth: async () => undefined })
    const placed = { ...build, hostId: host.id, hypervisor: 'qemu' as const }
    await sending.put(placed, AbortSignal.timeout(10_000))
    expect(sent[0]?.spec.settings).toEqual({
      dockerfile: 'web.Dockerfile',
      args: { LEVEL: '1', URL: 'value of URL' },
      secrets: { TOKEN: 'value of TOKEN' },
    })
    await sending.remove(placed, AbortSignal.timeout(10_000))
    expect(sent[1]?.spec.settings).toBeUndefined()
    expect(JSON.stringify(await world.rows(`SELECT * FROM build WHERE id = $1`, build.id))).not.toContain('value of')
  })
})
