/**
 * Measures the time until a host can start VMs from an image of a registry, compared with fetching the same bytes over
 * HTTP and unpacking them with tar.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash, randomFillSync } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { context } from '../test/support/agent/image.ts'
import { platform, refName } from '../src/agent/image/layout.ts'
import { imageStore } from '../src/agent/image/store.ts'
import { run } from '../src/lib/exec.ts'
import { hasProgram } from '../src/lib/programs.ts'
import { until } from '../test/support/wait.ts'
import type { Benchmark } from './benchmark.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 5
const layerMib = 64
const needed = ['docker-registry', 'skopeo', 'umoci', 'tar']

interface Blob {
  readonly digest: string
  readonly size: number
}

/** Writes an image with one layer and one incompressible file to `layoutDir`; returns the layer's digest. */
async function writeImage(layoutDir: string, scratch: string): Promise<Blob> {
  const put = async (data: Buffer): Promise<Blob> => {
    const hex = createHash('sha256').update(data).digest('hex')
    await mkdir(join(layoutDir, 'blobs/sha256'), { recursive: true })
    await writeFile(join(layoutDir, 'blobs/sha256', hex), data)
    return { digest: `sha256:${hex}`, size: data.length }
  }
  await mkdir(join(scratch, 'root'), { recursive: true })
  await writeFile(join(scratch, 'root', 'data'), randomFillSync(Buffer.alloc(layerMib * 2 ** 20)))
  await run('tar', ['-cf', join(scratch, 'layer.tar'), '-C', join(scratch, 'root'), 'data'])
  const layer = await put(await readFile(join(scratch, 'layer.tar')))
  const json = (value: unknown) => put(Buffer.from(JSON.stringify(value)))
  const config = await json({
    ...platform,
    config: { Entrypoint: ['/data'] },
    rootfs: { type: 'layers', diff_ids: [layer.digest] },
    history: [],
  })
  const manifest = await json({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...config },
    layers: [{ mediaType: 'application/vnd.oci.image.layer.v1.tar', ...layer }],
  })
  const entry = {
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    ...manifest,
    annotations: { [refName]: 'v1' },
  }
  await writeFile(join(layoutDir, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  await writeFile(join(layoutDir, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [entry] }))
  return layer
}

async function startRegistry(dir: string): Promise<{ readonly host: string; readonly child: ChildProcess }> {
  const place = createServer().listen(0, '127.0.0.1')
  await once(place, 'listening')
  const { port } = place.address() as AddressInfo
  place.close()
  const host = `127.0.0.1:${port}`
  const config = join(dir, 'registry.yml')
  await mkdir(join(dir, 'registry'))
  await writeFile(
    config,
    `version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: ${join(dir, 'registry')}}}\nhttp: {addr: "${host}"}\n`,
  )
  const child = spawn('docker-registry', ['serve', config], { stdio: 'ignore' })
  await until(async () => (await fetch(`http://${host}/v2/`)).ok, { what: 'the registry to answer', timeoutMs: 10_000 })
  return { host, child }
}

export const image: Benchmark = {
  name: 'image',
  goal: 'an image of 64 MiB is fetched and converted to a base at half the rate of its bytes over HTTP and through tar',
  covers: ['B20'],
  how: "The image comes from Debian's docker-registry on this computer. Mote resolves the digest, copies the image with skopeo (verifying each digest), unpacks it with umoci in a one-way directory and makes the read-only file system. This alternates with fetching the layer into a file and tar -x. The second time Mote uses its existing base.",
  reading:
    'The base is a file system image, so its 64 MiB are read and written once more (0.12 s). skopeo fetches and verifies at the rate of the plain fetch. umoci takes 0.35 s of CPU, nearly all of it to hash the layer twice; tar takes 0.06 s. Until 2026-11-21, 19:20, skopeo also compressed the layer, which was then decompressed to determine its size, and the ratio was 0.33.',
  unable: async () => {
    const present = await Promise.all(needed.map(hasProgram))
    const missing = needed.filter((_, n) => !present[n])
    return missing.length > 0 ? `not installed: ${missing.join(', ')}` : undefined
  },
  async run(report) {
    const dir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
    const registry = await startRegistry(dir)
    try {
      const layoutDir = join(dir, 'layout')
      const layer = await writeImage(layoutDir, join(dir, 'scratch'))
      const policy = join(dir, 'policy.json')
      await writeFile(policy, '{"default":[{"type":"insecureAcceptAnything"}]}')
      const to = `docker://${registry.host}/team/big:v1`
      await run('skopeo', [
        ...['--policy', policy, 'copy', '-q', '--preserve-digests', '--dest-tls-verify=false'],
        ...[`oci:${layoutDir}:v1`, to],
      ])
      let n = 0
      const again: number[] = []
      const perSecond = async (act: () => Promise<void>) => {
        const began = performance.now()
        await act()
        return (layerMib * 1000) / (performance.now() - began)
      }
      const found = await inTurns(rounds, {
        async product() {
          const cacheDir = join(dir, `cache-${n++}`)
          const registries = [{ host: registry.host, plainHttp: true }]
          const store = imageStore({ cacheDir, imageDir: dir, registries, maxImageMib: 1024 })
          const fetched = () =>
            perSecond(async () => void (await store.base(`${registry.host}/team/big:v1`, context())))
          const rate = await fetched()
          again.push((layerMib * 1000) / (await fetched()))
          await rm(cacheDir, { recursive: true, force: true })
          return rate
        },
        async bytes() {
          const target = join(dir, `plain-${n++}`)
          await mkdir(target)
          const rate = await perSecond(async () => {
            const answer = await fetch(`http://${registry.host}/v2/team/big/blobs/${layer.digest}`)
            if (!answer.body) throw new Error('the registry sent nothing')
            await pipeline(Readable.fromWeb(answer.body as never), createWriteStream(join(target, 'layer.tar')))
            await run('tar', ['-xf', join(target, 'layer.tar'), '-C', target])
          })
          await rm(target, { recursive: true, force: true })
          return rate
        },
      })
      report.samples('image to base', 'MiB/s', found.product)
      report.samples('the bytes: HTTP and tar', 'MiB/s', found.bytes)
      report.samples('the second time', 'ms', again)
      report.atLeast(
        'rate of fetching and converting the image / rate of fetching and unpacking its bytes',
        ratioOfRounds(found.product, found.bytes),
        0.5,
      )
    } finally {
      registry.child.kill('SIGKILL')
      await rm(dir, { recursive: true, force: true })
    }
  },
}
