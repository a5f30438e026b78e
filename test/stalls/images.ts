/** The worst known inputs for parsers of the agent that read sources, outputs of builders, and images. */
import { writeFile } from 'node:fs/promises'
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { downloadsWith } from '../../src/agent/build/archives/download.ts'
import { metadataIn } from '../../src/agent/build/archives/metadata.ts'
import { npmArchives } from '../../src/agent/build/archives/npm.ts'
import { rustRelease } from '../../src/agent/build/archives/rust.ts'
import { outputLimits, readLayer, readLayout } from '../../src/agent/build/output.ts'
import { checkDockerfile, instructionsOf } from '../../src/agent/build/dockerfile.ts'
import { imagesOf } from '../../src/agent/build/private-bases.ts'
import { planProject } from '../../src/agent/build/plan/index.ts'
import { fetchUpload } from '../../src/agent/build/upload.ts'
import { buildBase } from '../../src/agent/image/base.ts'
import { filesBelow, runConfigOf } from '../../src/agent/image/config.ts'
import { blobPath, findManifest, readBlob } from '../../src/agent/image/layout.ts'
import { run } from '../../src/lib/exec.ts'
import { settled } from '../support/hostile-peers.ts'
import { place, placed, never, archives, packed, deepJson, wideJson } from './inputs.ts'
import type { Case } from './measure.ts'

async function layoutOf(layers: readonly Buffer[], config: Buffer = Buffer.from('{}')): Promise<string> {
  const layout = place()
  await run('mkdir', ['-p', join(layout, 'blobs/sha256')])
  const put = async (data: Buffer) => {
    const hex = createHash('sha256').update(data).digest('hex')
    await writeFile(join(layout, 'blobs/sha256', hex), data)
    return { digest: `sha256:${hex}`, size: data.length }
  }
  const manifest = { config: await put(config), layers: await Promise.all(layers.map(put)) }
  const entry = await put(Buffer.from(JSON.stringify(manifest)))
  await writeFile(join(layout, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [entry] }))
  return layout
}

const documents = [deepJson, wideJson].map(json => [json(4_000_000), json(65_000)] as const)

/**
 * Metadata of an npm package version. Its archive is on a host that is refused, so only reading metadata is measured.
 */
const npmVersion = { dist: { tarball: 'https://packages.example.com/a.tgz', integrity: `sha512-${'A'.repeat(86)}==` } }
const packumentOf = (count: number) => {
  const versions = Object.fromEntries(Array.from({ length: count }, (_, n) => [`1.0.${n}`, npmVersion]))
  return JSON.stringify({ 'dist-tags': { latest: '1.0.0' }, versions })
}
const packages = new Map([
  ...[5_000, 100_000].map(count => [`of-${count}`, packumentOf(count)] as const),
  ['deep', deepJson(8_000_000)],
  ['wide', wideJson(16_000_000)],
])
const manifests = ['[pkg.a]\n'.repeat(100_000), 'a=['.repeat(1_000_000), `a = "${'x'.repeat(7_000_000)}"`]
const metadataFiles = new Map<string, string | Buffer>([
  ...[...packages].map(([name, text]) => [`/${name}`, Buffer.from(text)] as const),
  ...manifests.flatMap((text, n) => {
    const path = `/dist/channel-rust-1.${n}.toml`
    return [
      [path, Buffer.from(text)] as const,
      [`${path}.sha256`, createHash('sha256').update(text).digest('hex')] as const,
    ]
  }),
])

export const imagesCases: readonly Case[] = [
  {
    name: 'a source for a builder',
    files: ['src/agent/build/upload.ts', 'src/agent/build/upload-read.ts'],
    async run() {
      for (const data of packed().slice(0, 3)) {
        const part = { data: data.toString('base64'), sizeBytes: data.length }
        const digest = createHash('sha256').update(data).digest('hex')
        await settled(fetchUpload(async () => part, digest, place(), { maxBytes: 1 << 30, signal: never }))
      }
    },
  },
  {
    name: 'the output of a builder',
    files: ['src/agent/build/output.ts', 'src/agent/build/output-read.ts'],
    async run() {
      for (const data of archives().slice(0, 3)) {
        const disk = await placed(data)
        await settled(readLayer(disk, place(), { ...outputLimits, signal: never }))
        await settled(readLayout(disk, place(), { ...outputLimits, signal: never }))
      }
    },
  },
  {
    name: 'the layers of an image',
    files: ['src/agent/image/base.ts', 'src/agent/image/layer-count.ts'],
    async run() {
      for (const data of packed()) {
        const layout = await layoutOf([data])
        const found = await findManifest(layout, 'latest')
        const target = place()
        await run('mkdir', [target])
        const unprivileged = { program: undefined, reason: 'not of interest here' }
        const options = { maxBytes: 256 << 20, withSeed: false, form: 'disk', unprivileged } as const
        await settled(
          buildBase({ layoutDir: layout, found, digest: found.digest }, target, options, AbortSignal.timeout(20_000)),
        )
      }
    },
  },
  {
    name: 'the documents and users of an image',
    files: ['src/agent/image/layout.ts', 'src/agent/image/config.ts', 'src/agent/image/document.ts'],
    async run() {
      for (const [large, small] of documents) {
        const layout = await layoutOf([])
        const { digest } = (await findManifest(layout, 'latest')).manifest.config
        await writeFile(blobPath(layout, digest), large)
        await settled(readBlob(layout, digest))
        await writeFile(join(layout, 'index.json'), small)
        await settled(findManifest(layout, 'latest'))
      }
      const rootfs = place()
      await run('mkdir', ['-p', join(rootfs, 'etc')])
      for (const name of ['passwd', 'group']) await writeFile(join(rootfs, 'etc', name), ':\n'.repeat((1 << 19) - 1))
      await settled(runConfigOf(filesBelow(rootfs), { config: { User: 'nobody' } }))
    },
  },
  {
    name: 'the files that determine a build plan',
    files: [
      'src/agent/build/plan/dockerignore.ts',
      'src/agent/build/plan/index.ts',
      'src/agent/build/plan/node/frameworks.ts',
      'src/agent/build/plan/versions.ts',
    ],
    async run() {
      const texts = [deepJson(250_000), `{"scripts":${wideJson(250_000)}}`, 'web:'.repeat(60_000), '\n'.repeat(250_000)]
      const floods = [
        '"\\\\',
        '/*',
        '[ ',
        'k = x ',
        '"engines":{',
        'output: ',
        'vite ',
        ', ',
        '# ',
        'node ',
        '"packageManager":',
        '[^',
        '[a-',
        '[a-b',
        '**/',
        '*',
        '../a/',
        '\\',
      ]
      const buildable = `{"scripts":{"build":"b"},"dependencies":{"vite":"1"}}`
      for (const text of [...texts, ...floods.map(one => one.repeat(250_000 / one.length))])
        for (const name of [
          'package.json',
          'requirements.txt',
          'Procfile',
          'vite.config.ts',
          '.nvmrc',
          'mise.toml',
          '.dockerignore',
          'Dockerfile',
        ])
          try {
            const files = new Map([['package.json', buildable]])
            if (name === 'requirements.txt') files.delete('package.json')
            files.set(name, text)
            planProject({ paths: new Set([...files.keys(), 'main.py', 'Procfile']), texts: files })
          } catch {
            // Ignore that the source is rejected: only the parser's speed matters.
          } finally {
            await turn()
          }
    },
  },
  {
    name: 'a Dockerfile',
    files: ['src/agent/build/dockerfile.ts', 'src/agent/build/private-bases.ts'],
    async run() {
      const parts = [
        ...[
          '${',
          '${a:-',
          '$A',
          '\\\n',
          'FROM ',
          'FROM a\n',
          ' --from=',
          '--mount=from=',
          '"',
          'ARG A=$A\n',
          'a.example/',
        ],
        ...['<<', '<<A ', 'RUN <<A\n', '\n', ' ', '#\n', 'as as ', 'A= ', '\t'],
      ]
      for (const part of parts)
        for (const head of [`ARG A=${'x'.repeat(100)}\nFROM `, 'RUN ', ''])
          try {
            const instructions = instructionsOf(head + part.repeat((256 << 10) / part.length))
            imagesOf(instructions, {})
            checkDockerfile('Dockerfile', instructions)
          } catch {
            // Ignore that the Dockerfile is rejected: only the parser's speed matters.
          } finally {
            await turn()
          }
    },
  },
  {
    name: 'the metadata of toolchains',
    files: [
      ...['download.ts', 'metadata.ts', 'npm-read.ts', 'npm.ts', 'rust-read.ts', 'rust.ts'].map(
        file => `src/agent/build/archives/${file}`,
      ),
    ],
    async run() {
      await using server = createServer(({ url = '' }, answer) => void answer.end(metadataFiles.get(url)))
      await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening))
      const { port } = server.address() as AddressInfo
      const base = `http://127.0.0.1:${port}`
      const deps = { downloads: downloadsWith(''), metadata: metadataIn(place(), Date.now) }
      for (const name of packages.keys()) await settled(npmArchives({ registry: base, ...deps }, `${name}@^1`))
      for (const n of manifests.keys()) await settled(rustRelease({ server: base, ...deps }, `1.${n}`))
    },
  },
]
