/** Tests which rows a request for a build creates, and which requests are refused, before any host is involved. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ComputeWorld, computeWorld } from '../../../test/support/compute.ts'
import { lock } from '../apps/store.ts'
import type { DeployBody, DeployCall } from '../deployments/index.ts'
import { deployFromSource } from './index.ts'

let world: ComputeWorld
beforeAll(async () => {
  world = await computeWorld()
  await world.addHost()
})
afterAll(() => world[Symbol.asyncDispose]())

const call = (): DeployCall => ({
  project: { id: world.projectId },
  caller: { via: { kind: 'session' } },
  traceparent: '00-1-1-01',
  audit: () => undefined,
})
const app = async (url: string) => {
  const made = await world.app()
  await world.rows(`UPDATE app SET git_url = $2 WHERE id = $1`, made.id, url)
  return made
}
const ask = ({ projectId, name }: { projectId: string; name: string }, body: DeployBody = {}) =>
  world.db.tx(async tx => {
    const row = await lock(tx, projectId, name)
    if (!row) throw new Error('no app')
    return deployFromSource(world.deps, call(), tx, row, { body })
  })
const states = async (appId: string) =>
  (await world.rows<{ state: string }>(`SELECT state FROM build WHERE app_id = $1 ORDER BY id`, appId)).map(
    row => row.state,
  )

describe('a request to deploy from source', () => {
  it('creates a deployment that waits for its build, and no VM', async () => {
    const made = await app('https://git.example/a.git')
    const answer = await ask(made)
    expect(answer).toMatchObject({ status: 'building', vm_id: '', image_tag: '' })
    expect(await states(made.id)).toEqual(['queued'])
    expect(await world.rows(`SELECT id FROM vm WHERE app_id = $1`, made.id)).toEqual([])
    const rows = await world.rows(`SELECT image, trigger_source FROM deployment WHERE app_id = $1`, made.id)
    expect(rows).toEqual([{ image: '', trigger_source: 'manual' }])
  })

  it("supersedes the app's queued builds, unless it is a dry run", async () => {
    const made = await app('https://git.example/b.git')
    await ask(made)
    expect(await ask(made, { dry_run: true })).toMatchObject({ status: 'dry_run', deployment_id: '' })
    expect(await states(made.id)).toEqual(['queued'])
    await ask(made)
    expect(await states(made.id)).toEqual(['superseded', 'queued'])
  })

  it('is refused for an address with git://', async () => {
    const asked = ask(await app('git://git.example/a'))
    await expect(asked).rejects.toMatchObject({ status: 400, message: expect.stringContaining('https') })
  })

  it.each(['git@git.example:a/b.git', 'ssh://git@git.example/a'])(
    'is refused without a deploy key for the SSH address %s',
    async url => {
      await expect(ask(await app(url))).rejects.toMatchObject({
        status: 409,
        message: expect.stringContaining('deploy key for git.example'),
      })
    },
  )

  it('is refused when there are several hosts but no registry', async () => {
    const made = await app('https://git.example/c.git')
    await world.addHost()
    await expect(ask(made)).rejects.toMatchObject({
      code: 'invalid_state',
      message: expect.stringContaining('MOTE_REGISTRY'),
    })
    expect(await states(made.id)).toEqual([])
  })
})
