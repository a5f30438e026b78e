import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer as createTcp } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../../lib/exec.ts'
import { baseOfSnapshot } from '../hypervisor/prepare.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { context } from '../../../test/support/agent/image.ts'
import { startRegistry, tokenServer } from '../../../test/support/agent/private-registry.ts'
import { parseImage } from './reference.ts'
import { manifestDigest } from './registry.ts'
import { writeSampleImage } from './sample.ts'
import { imageStore } from './store.ts'
import { testCache } from '../../../test/support/agent/test-cache.ts'

const missing = ['docker-registry', 'skopeo', 'umoci'].filter(name => !existsSync(`/usr/bin/${name}`))

test.skipIf(missing.length > 0)(
  `an image is pulled by tag and by digest from a registry with a password, and failures are reported (needs ${missing.join(' ') || 'nothing'})`,
  { timeout: 60_000 },
  async () => {
    await using dir = await testDir()
    await using tokens = await tokenServer()
    await using registry = await startRegistry(dir.path, tokens.url)
    const layoutDir = join(dir.path, 'images/hello')
    const digest = await writeSampleImage(layoutDir)
    const target = `docker://${registry.host}/team/hello:v1`
    const policy = join(dir.path, 'policy.json')
    await writeFile(policy, '{"default":[{"type":"insecureAcceptAnything"}]}')
    const flags = [
      '--policy',
      policy,
      'copy',
      '-q',
      '--preserve-digests',
      '--dest-tls-verify=false',
      '--dest-creds',
      'user:secret',
    ]
    await run('skopeo', [...flags, `oci:${layoutDir}:latest`, target])

    const store = (password: string, cache: string) =>
      imageStore({
        cacheDir: testCache(join(dir.path, cache)),
        imageDir: dir.path,
        registries: [{ host: registry.host, plainHttp: true, username: 'user', password }],
        maxImageMib: 64,
      })
    const said: string[] = []
    const base = await store('secret', 'a').base(`${registry.host}/team/hello:v1`, context(said))
    expect(base.config).toMatchObject({ digest, uid: 1000 })
    expect(said.join()).toContain('pulling')
    const again: string[] = []
    await store('secret', 'a').base(`${registry.host}/team/hello@${digest}`, context(again))
    expect(again).toEqual([])
    const pinned = await store('secret', 'b').base(`${registry.host}/team/hello@${digest}`, context())
    expect(await readFile(pinned.file)).toEqual(await readFile(base.file))

    // The tag now refers to another image, but a snapshot of a VM still finds the image with which the VM was created.
    const anew = await writeSampleImage(layoutDir, { greeting: 'Bye' })
    await run('skopeo', [...flags, `oci:${layoutDir}:latest`, target])
    const spec = { image: `${registry.host}/team/hello:v1` }
    const over = (imageDigest: string) =>
      baseOfSnapshot(
        { images: store('secret', 'b') },
        { spec },
        { notes: { base: '/nowhere' }, imageDigest },
        context(),
      )
    expect(await over(digest)).toBe(pinned.file)
    expect(await readFile(await over(anew))).not.toEqual(await readFile(base.file))
    await expect(over(`sha256:${'0'.repeat(64)}`)).rejects.toMatchObject({ code: 'snapshot_base_missing' })

    const unnamed = imageStore({ cacheDir: join(dir.path, 'd'), imageDir: dir.path, registries: [], maxImageMib: 64 })
    const inside = unnamed.base(`${registry.host}/team/hello:v1`, context())
    await expect(inside).rejects.toMatchObject({ code: 'invalid_image' })
    await expect(inside).rejects.toThrow(/MOTE_PRIVATE_REGISTRIES/)
    const wrong = store('wrong', 'c').base(`${registry.host}/team/hello:v1`, context())
    await expect(wrong).rejects.toMatchObject({ code: 'image_not_found' })
    await expect(wrong).rejects.not.toThrow(/wrong/)
    const none = store('secret', 'a').base(`${registry.host}/team/nothing:v1`, context())
    await expect(none).rejects.toMatchObject({ code: 'image_not_found' })
  },
)

test.skipIf(!existsSync('/usr/bin/skopeo'))(
  "skopeo cannot connect to a registry whose name resolves to a private address only after Mote's check (needs skopeo)",
  { timeout: 60_000 },
  async () => {
    let visitors = 0
    const inside = createTcp(socket => {
      visitors++
      socket.destroy()
    }).listen(0, '127.0.0.1')
    await once(inside, 'listening')
    using _closing = { [Symbol.dispose]: () => void inside.close() }
    const address = inside.address()
    const port = typeof address === 'object' ? address?.port : 0
    const reference = parseImage(`flips.example:${port}/team/hello:v1`)
    if (reference.kind !== 'registry') throw new Error('BUG: it is in a registry')
    const answers: string[] = []
    const flips = async () => {
      answers.push(answers.length === 0 ? '93.184.215.14' : '127.0.0.1')
      return answers.slice(-1)
    }
    const asked = manifestDigest(reference, [], AbortSignal.timeout(30_000), { lookup: flips })
    await expect(asked).rejects.toMatchObject({
      code: 'invalid_image',
      message: expect.stringContaining('flips.example has a private address'),
    })
    // The name was resolved by the check and by the proxy, never by skopeo itself.
    expect(answers.length).toBeGreaterThan(1)
    expect(visitors).toBe(0)
  },
)
