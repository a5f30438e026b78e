import { join, resolve } from 'node:path'
import type { AgentConfig } from '../base/config.ts'
import { tagsOf } from './write-layout.ts'

/** OCI layouts that `mote image build` creates for database engines. */
const engines = ['postgres'] as const

/** Builds write layouts with other names (`app-...`). */
export const isEngine = (layout: string): boolean => engines.some(engine => engine === layout)

/**
 * Returns the database images in the image directory, such as `postgres:15`. Empty without root: unpacking then loses
 * the owners of files, and the database's own user could not write its cluster. Undefined if VMs are simulated: any
 * image is accepted.
 */
export function databaseImages({
  hypervisor,
  imageDir,
}: Pick<AgentConfig, 'hypervisor' | 'imageDir'>): Promise<string[]> | undefined {
  if (hypervisor === 'fake') return undefined
  if (process.getuid?.() !== 0) return Promise.resolve([])
  const tagged = engines.map(async name => (await tagsOf(join(resolve(imageDir), name))).map(tag => `${name}:${tag}`))
  return Promise.all(tagged).then(all => all.flat().toSorted())
}
