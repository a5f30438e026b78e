/** A tenant can use neither the operator's credentials nor cached images that it could not pull itself. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, test } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { type AskLogin, everyProject, type ImageUser, registriesFor, signedIn, wayOf } from './access.ts'
import type { RegistryConfig } from '../base/registry-config.ts'
import { writeSampleImage } from './sample.ts'
import { imageStore } from './store.ts'
import { context } from '../../../test/support/agent/image.ts'
import { testCache } from '../../../test/support/agent/test-cache.ts'

const ofOperator = { host: 'registry.example', username: 'operator', password: 'secret' }
const [named, other] = [{ projectId: 'named' }, { projectId: 'other' }]

describe("the operator's credentials for a registry", () => {
  it.each<[string, RegistryConfig, ImageUser, boolean]>([
    ['nobody by default', ofOperator, other, false],
    ['built images', ofOperator, { ...other, builtImage: true }, true],
    ['a project that the operator named', { ...ofOperator, projects: ['x', 'named'] }, named, true],
    ['no project that the operator did not name', { ...ofOperator, projects: ['x', 'named'] }, other, false],
    ['every project', { ...ofOperator, projects: [everyProject] }, other, true],
  ])('are usable by %s', (_, registry, user, isOpen) => {
    const [found] = registriesFor([registry], user)
    expect([found?.host, found?.username !== undefined, found?.password !== undefined]).toEqual([
      'registry.example',
      isOpen,
      isOpen,
    ])
  })

  it('are a different access path to an image than anonymous pulls', () => {
    const image = { registry: 'registry.example', repository: 'registry.example/team/app' }
    expect(wayOf(image, [ofOperator])).not.toBe(wayOf(image, registriesFor([ofOperator], other)))
    expect(wayOf(image, [ofOperator])).not.toBe(
      wayOf({ ...image, repository: 'registry.example/team/other' }, [ofOperator]),
    )
  })
})

describe("a project's own registry credential", () => {
  const image = { registry: 'Registry.example', repository: 'Registry.example/team/app' }
  const login = { host: 'registry.example', username: 'ada', password: 'own' }

  it("is used for its registry only, and replaces the operator's credential", () => {
    expect(signedIn([ofOperator], { ...image, registry: 'registry.example' }, login)).toEqual([
      {
        host: 'registry.example',
        plainHttp: false,
        username: 'ada',
        password: 'own',
        ofProject: true,
        isGuarded: false,
      },
    ])
    // A registry that the operator did not configure must have a public address, even with a credential.
    expect(signedIn([], image, login)).toMatchObject([{ host: 'Registry.example', isGuarded: true }])
    expect(() => signedIn([], { ...image, registry: 'registry.example:5000' }, login)).toThrow(/has no credential/)
    expect(() => signedIn([], image, undefined)).toThrow(/has no credential/)
  })

  it('is valid for every host name of Docker Hub', () => {
    const hub = { registry: 'docker.io', repository: 'docker.io/team/app' }
    expect(signedIn([], hub, { ...login, host: 'index.docker.io' })).toMatchObject([{ username: 'ada' }])
  })

  it('gives access to images to its own project only', () => {
    const ways = [
      wayOf(image, [], { ...named, signsInFor: 'vm-1' }),
      wayOf(image, [], { ...other, signsInFor: 'vm-2' }),
      wayOf(image, [], named),
    ]
    expect(new Set(ways).size).toBe(3)
    expect(wayOf(image, [], { ...named, signsInFor: 'vm-3' })).toBe(ways[0])
  })
})

const missing = ['skopeo', 'umoci'].filter(name => !existsSync(`/usr/bin/${name}`))

test.skipIf(missing.length > 0)(
  `a cached image is only used by tenants who could pull it themselves (needs ${missing.join(' ') || 'nothing'})`,
  { timeout: 60_000 },
  async () => {
    await using dir = await testDir()
    const layout = join(dir.path, 'layout')
    const digest = await writeSampleImage(layout)
    await using registry = await privateRegistry(layout, digest)
    const store = imageStore({
      cacheDir: testCache(join(dir.path, 'cache')),
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

    // Once access is confirmed, the registry is not queried again, so that VMs start while it is down.
    const asked = registry.requests()
    for (const user of [named, { ...other, builtImage: true }, undefined])
      expect((await store.base(image, context(), user)).file).toBe(base.file)
    expect(registry.requests()).toBe(asked)
  },
)

test.skipIf(missing.length > 0)(
  `an image that one project can pull is refused to others, even while it is being pulled (needs ${missing.join(' ') || 'nothing'})`,
  { timeout: 60_000 },
  async () => {
    await using dir = await testDir()
    const layout = join(dir.path, 'layout')
    const digest = await writeSampleImage(layout)
    await using registry = await privateRegistry(layout, digest)
    let password = 'secret'
    const asked: string[] = []
    const askLogin: AskLogin = async vmId => {
      asked.push(vmId)
      return vmId === 'removed' ? undefined : { host: registry.host, username: 'operator', password }
    }
    const store = imageStore({
      cacheDir: testCache(join(dir.path, 'cache')),
      imageDir: dir.path,
      registries: [{ host: registry.host, plainHttp: true }],
      maxImageMib: 64,
      askLogin,
    })
    const image = `${registry.host}/team/app@${digest}`
    const owner = { ...named, signsInFor: 'vm' }
    const refused = { code: 'image_not_found' }

    password = 'wrong'
    await expect(store.base(image, context(), owner)).rejects.toMatchObject({
      ...refused,
      message: expect.stringMatching(/refuses .* to the user operator of this project: the password is wrong/),
    })
    await expect(store.base(image, context(), { ...named, signsInFor: 'removed' })).rejects.toMatchObject(refused)
    password = 'secret'
    // All requests wait for the same pull, which any of them may have started. A pull without access fails for all, and
    // the next one may again be without access.
    const without = () => Array.from({ length: 4 }, () => store.base(image, context(), other))
    const before = without()
    const [owned, ...others] = await Promise.allSettled([
      ...[store.base(image, context(), owner), ...before, ...without()],
    ])
    expect(owned).toMatchObject({ status: 'fulfilled' })
    expect(others.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 'rejected'))
    await expect(store.base(image, context(), other)).rejects.toMatchObject(refused)

    // The credential is only requested when the registry is queried.
    asked.length = 0
    await store.base(image, context(), owner)
    expect(asked).toEqual([])
    // A project that has removed its credential has no access any more.
    await expect(store.base(image, context(), named)).rejects.toMatchObject(refused)
  },
)

/** Serves one image of a layout as `team/app` to the user `operator` only (Docker Registry HTTP API V2, pull). */
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
