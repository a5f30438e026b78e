/** A tenant can use neither the operator's credentials nor cached bases that it could not pull itself. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, test } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { everyProject, type ImageUser, registriesFor, wayOf } from './access.ts'
import type { RegistryConfig } from '../base/registry-config.ts'
import { writeSampleImage } from './sample.ts'
import { imageStore } from './store.ts'
import { context } from '../../../test/support/agent/image.ts'

const signedIn = { host: 'registry.example', username: 'operator', password: 'secret' }
const [named, other] = [{ projectId: 'named' }, { projectId: 'other' }]

describe('credentials of a registry', () => {
  it.each<[string, RegistryConfig, ImageUser, boolean]>([
    ['nobody by default', signedIn, other, false],
    ['built images', signedIn, { ...other, builtImage: true }, true],
    ['a project that the operator named', { ...signedIn, projects: ['x', 'named'] }, named, true],
    ['no project that the operator did not name', { ...signedIn, projects: ['x', 'named'] }, other, false],
    ['every project', { ...signedIn, projects: [everyProject] }, other, true],
  ])('are for %s', (_, registry, user, isOpen) => {
    const [found] = registriesFor([registry], user)
    expect([found?.host, found?.username !== undefined, found?.password !== undefined]).toEqual([
      'registry.example',
      isOpen,
      isOpen,
    ])
  })

  it('count as separate access to the same image', () => {
    const image = { registry: 'registry.example', repository: 'registry.example/team/app' }
    expect(wayOf(image, [signedIn])).not.toBe(wayOf(image, registriesFor([signedIn], other)))
    expect(wayOf(image, [signedIn])).not.toBe(
      wayOf({ ...image, repository: 'registry.example/team/other' }, [signedIn]),
    )
  })
})

const missing = ['skopeo', 'umoci'].filter(name => !existsSync(`/usr/bin/${name}`))

test.skipIf(missing.length > 0)(
  `a cached base is used only by tenants who could pull it themselves (needs ${missing.join(' ') || 'nothing'})`,
  { timeout: 60_000 },
  async () => {
    await using dir = await testDir()
    const layout = join(dir.path, 'layout')
    const digest = await writeSampleImage(layout)
    await using registry = await privateRegistry(layout, digest)
    const store = imageStore({
      cacheDir: join(dir.path, 'cache'),
      imageDir: dir.path,
      registries: [
        { host: registry.host, plainHttp: true, username: 'operator', password: 'secret', projects: ['named'] },
      ],
      maxImageMib: 64,
    })
    const image = `${registry.host}/team/app@${digest}`
    const refused = { code: 'image_not_found' }
    await expect(store.base(image, context(), other)).rejects.toMatchObject(refused)
    const base = await store.base(image, context(), named)
    expect(base.config.digest).toBe(digest)

    await expect(store.base(image, context(), other)).rejects.toMatchObject(refused)
    await expect(store.base(`${registry.host}/team/mine@${digest}`, context(), other)).rejects.toMatchObject(refused)
    expect((await store.base(image, context(), { ...other, builtImage: true })).file).toBe(base.file)

    // Access that was confirmed once needs no registry: VMs start while the registry is down.
    const asked = registry.requests()
    for (const user of [named, { ...other, builtImage: true }, undefined])
      expect((await store.base(image, context(), user)).file).toBe(base.file)
    expect(registry.requests()).toBe(asked)
  },
)

/** Serves one image of a layout as `team/app`, to the operator only (Docker Registry HTTP API V2, pull). */
async function privateRegistry(layout: string, digest: string) {
  let requests = 0
  const wanted = `Basic ${Buffer.from('operator:secret').toString('base64')}`
  const server = createServer((request, response) => {
    requests += 1
    if (request.headers.authorization !== wanted)
      return void response.writeHead(401, { 'www-authenticate': 'Basic realm="test"' }).end()
    if (request.url === '/v2/') return void response.end('{}')
    const found = /^\/v2\/team\/app\/(manifests|blobs)\/sha256:([0-9a-f]{64})$/.exec(request.url ?? '')
    if (!found) return void response.writeHead(404).end()
    const type = found[1] === 'manifests' ? 'application/vnd.oci.image.manifest.v1+json' : 'application/octet-stream'
    void readFile(join(layout, 'blobs/sha256', found[2] ?? '')).then(
      blob =>
        response.writeHead(200, { 'content-type': type, 'docker-content-digest': `sha256:${found[2]}` }).end(blob),
      () => response.writeHead(404).end(),
    )
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    digest,
    requests: () => requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
