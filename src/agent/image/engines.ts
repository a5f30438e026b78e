import { join, resolve } from 'node:path'
import { run } from '../../lib/exec.ts'
import { lazily, once } from '../../lib/once.ts'
import type { AgentConfig } from '../base/config.ts'
import { releaseOfPostgres } from './releases.ts'
import { tagsOf } from './write-layout.ts'

/** OCI layouts of database engines, which the host or `mote image build` makes. */
const engines = ['postgres'] as const

/** Builds write layouts with other names (`app-...`). */
export const isEngine = (layout: string): boolean => engines.some(engine => engine === layout)

/** Major versions of PostgreSQL that the packages of this host's distribution include. None without apt. */
export const ownVersions = once(async (): Promise<readonly string[]> => {
  const names = new Set((await run('apt-cache', ['pkgnames', 'postgresql-']).catch(() => '')).split('\n'))
  return Object.keys(releaseOfPostgres).filter(version => names.has(`postgresql-${version}`))
})

/** Those of `ownVersions`, once they are known: reading the package lists takes a second, and no heartbeat waits for it. */
let known: readonly string[] = []
const learn = lazily(() => void ownVersions().then(versions => (known = versions)))

/**
 * Returns the database images that the host has or makes when they are first needed, such as `postgres:15`. Empty without
 * root: unpacking then loses the owners of files, and the database's own user could not write its cluster. Undefined if VMs
 * are simulated: any image is accepted.
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
