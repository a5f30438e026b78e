import { join, resolve } from 'node:path'
import type { AgentConfig } from '../base/config.ts'
import { tagsOf } from './write-layout.ts'

/** Layouts that `mote image build` makes of database engines. */
const engines = ['postgres'] as const

/** Builds write layouts of other names (`app-...`). */
export const isEngine = (layout: string): boolean => engines.some(engine => engine === layout)

/**
 * `postgres:15` for each that is in the image directory now. None without root: unpacking loses the owners of files then, and
 * the database's own user may not write its cluster. Undefined where VMs are made up: any image is there.
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
