import { join, resolve } from 'node:path'
import { run } from '../../lib/exec.ts'
import { lazily, once } from '../../lib/once.ts'
import type { AgentConfig } from '../base/config.ts'
import { releaseOfPostgres } from './releases.ts'
import { tagsOf } from './write-layout.ts'

/** Names of OCI layouts with database images. The host builds these on demand, and `mote image build` builds them. */
const engines = ['postgres'] as const

/** Whether an OCI layout with this name holds database images. Layouts of built apps have other names (`app-...`). */
export const isEngine = (layout: string): boolean => engines.some(engine => engine === layout)

/** Returns the major versions of PostgreSQL in this host's distribution; an empty list without apt. */
export const ownVersions = once(async (): Promise<readonly string[]> => {
  const names = new Set((await run('apt-cache', ['pkgnames', 'postgresql-']).catch(() => '')).split('\n'))
  return Object.keys(releaseOfPostgres).filter(version => names.has(`postgresql-${version}`))
})

/**
 * The result of `ownVersions`; empty until it is known. Reading the package lists takes a second, for which heartbeats
 * do not wait.
 */
let known: readonly string[] = []
const learn = lazily(() => void ownVersions().then(versions => (known = versions)))

/**
 * Returns the database images that the host has or can build on demand, such as `postgres:15`. Undefined if VMs are
 * simulated, because simulated VMs accept any image. Empty without root, because unpacking would lose the owners of
 * files, and the server could not write to its data directory.
 */
export function databaseImages({
  hypervisor,
  imageDir,
}: Pick<AgentConfig, 'hypervisor' | 'imageDir'>): Promise<string[]> | undefined {
  if (hypervisor === 'fake') return undefined
  if (process.getuid?.() !== 0) return Promise.resolve([])
  return imagesIn(resolve(imageDir))
}

async function imagesIn(imageDir: string): Promise<string[]> {
  learn()
  const made = await tagsOf(join(imageDir, 'postgres'))
  return [...new Set([...known, ...made])].toSorted().map(version => `postgres:${version}`)
}
