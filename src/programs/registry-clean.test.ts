/** Cleans the installation's own registry, with a real docker-registry and skopeo. */
import { existsSync } from 'node:fs'
import { cp, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { accessToken, registrySystem } from '../../test/support/push-registry.ts'
import { testDir } from '../../test/support/agent/agent.ts'
import { until } from '../../test/support/wait.ts'
import { writeSampleImage } from '../agent/image/sample.ts'
import { statement } from '../db/db.ts'
import { run } from '../lib/exec.ts'
import { newId } from '../lib/ids.ts'
import { cleanRegistry } from './registry-clean.ts'

const missing = ['docker-registry', 'skopeo', 'umoci'].filter(name => !existsSync(`/usr/bin/${name}`))
const projectsLeft = statement<{ n: number }>(
  'test.registry.left',
  `SELECT count(*)::int AS n FROM project WHERE id = $1`,
)

describe.skipIf(missing.length > 0)(`cleaning the registry (needs ${missing.join(' ') || 'nothing'})`, () => {
  it('removes images of deleted projects and apps, and only while the registry is stopped', {
    timeout: 60_000,
  }, async () => {
    await using own = await registrySystem()
    await using dir = await testDir()
    const { db } = own.system.database
    const ann = await own.system.user()
    const policy = join(dir.path, 'policy.json')
    await writeFile(policy, '{"default":[{"type":"insecureAcceptAnything"}]}')
    const kept = await writeSampleImage(join(dir.path, 'kept'))
    await cp(join(dir.path, 'kept'), join(dir.path, 'gone'), { recursive: true })
    await run('umoci', ['config', '--image', `${join(dir.path, 'gone')}:latest`, '--config.env', 'GONE=1'])
    const token = await accessToken(ann, ['admin'])
    const push = (layout: string, name: string) =>
      run('skopeo', [
        ...['--policy', policy, 'copy', '-q', '--preserve-digests', '--dest-tls-verify=false'],
        ...['--dest-creds', `ci:${token}`, `oci:${join(dir.path, layout)}:latest`, `docker://${own.host}/${name}`],
      ])
    const gone = (await ann.post('/v1/projects', { name: 'Short lived' })).body
    await push('kept', `${ann.project}/shop:v1`)
    await push('gone', `${gone.tenant_id}/shop:v1`)
    await push('gone', `${gone.tenant_id}/team/shop:v1`)
    const app = (await ann.post('/v1/apps', { name: 'built', git_url: 'https://git.example/a.git' })).body
    const root = join(own.system.dir, 'registry', 'images', 'docker', 'registry', 'v2')
    const of = (appId: string) => join(root, 'repositories', 'mote.builds', appId)
    const deleted = newId()
    for (const appId of [app.id, deleted])
      await cp(join(root, 'repositories', ann.project, 'shop'), of(appId), { recursive: true })
    await mkdir(join(root, 'repositories', 'mote.builds', 'no-app'))

    await ann.delete(`/v1/projects/${gone.id}`)
    const isRemoved = async () => (await db.one(projectsLeft, [gone.id])).n === 0
    await until(isRemoved, { what: 'the project to be removed' })
    await expect(cleanRegistry(db, own.system.dir)).rejects.toThrow(/the registry runs on port \d+\. Stop mote up/)
    await own.registry.stop()
    const blobs = async () => (await readdir(join(root, 'blobs', 'sha256'), { recursive: true })).length
    const before = await blobs()
    const cleaned = await cleanRegistry(db, own.system.dir)
    expect(cleaned.removed.toSorted()).toEqual([join('mote.builds', deleted), gone.tenant_id].toSorted())
    expect(cleaned.bytesAfter).toBeLessThan(cleaned.bytesBefore)
    expect(await blobs()).toBeLessThan(before)
    const hex = kept.slice('sha256:'.length)
    expect(existsSync(join(root, 'blobs', 'sha256', hex.slice(0, 2), hex, 'data'))).toBe(true)
    expect(existsSync(of(app.id))).toBe(true)
    expect((await cleanRegistry(db, own.system.dir)).removed).toEqual([])
  })

  it('fails if the data directory has no registry', async () => {
    await using own = await registrySystem()
    await expect(cleanRegistry(own.system.database.db, '/nowhere')).rejects.toThrow('there is no registry in /nowhere')
  })
})
