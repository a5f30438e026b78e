import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, test } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { until } from '../../../test/support/wait.ts'
import { hasProgram } from '../../lib/programs.ts'
import { databaseImages, ownVersions } from './engines.ts'
import { ensurePostgresImage } from './postgres/on-demand.ts'

const isRoot = process.getuid?.() === 0
const noApt = (await hasProgram('apt-cache')) ? '' : ' (skipped, not installed: apt)'

/** Writes an OCI layout with one tag and no blobs. */
async function layoutWith(tag: string, dir: string) {
  await mkdir(join(dir, 'postgres'), { recursive: true })
  const manifests = [
    {
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      digest: `sha256:${'0'.repeat(64)}`,
      size: 1,
      annotations: { 'org.opencontainers.image.ref.name': tag },
    },
  ]
  await writeFile(join(dir, 'postgres/index.json'), JSON.stringify({ schemaVersion: 2, manifests }))
}

describe.skipIf(!isRoot || noApt !== '')(`database images of a host${noApt}`, () => {
  it("are those in its image directory, and those that it can build from its distribution's packages", async () => {
    await using dir = await testDir()
    await layoutWith('13', dir.path)
    const own = (await ownVersions()).map(version => `postgres:${version}`)
    const reported = () => databaseImages({ hypervisor: 'qemu', imageDir: dir.path })
    await until(async () => (await reported())?.length === own.length + 1, { what: 'the own versions are known' })
    expect(await reported()).toEqual([...own, 'postgres:13'].toSorted())
  })

  test('are not built on demand if they exist already, or if they need packages of another release', async () => {
    await using dir = await testDir()
    await layoutWith('99', dir.path)
    const said: string[] = []
    const context = {
      say: (line: string) => void said.push(line),
      time: <T>(_name: string, step: () => Promise<T>) => step(),
      signal: new AbortController().signal,
    }
    for (const version of ['13', '99']) await ensurePostgresImage(dir.path, version, context)
    expect(said).toEqual([])
  })
})

it('hosts with simulated VMs report no database images, because they accept any image', () =>
  expect(databaseImages({ hypervisor: 'fake', imageDir: '/nonexistent' })).toBeUndefined())
