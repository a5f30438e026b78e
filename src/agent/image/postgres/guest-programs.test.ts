import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { guestFiles } from './recipe.ts'

/**
 * gVisor reports another file system type for volumes than QEMU. mote-volumes knows both; a program that looks for ext4
 * itself would find no volume on gVisor, and thus make no backups.
 */
it('among the guest programs, only mote-volumes inspects mounts and file system types', () => {
  const looking = readdirSync(guestFiles).filter(name =>
    /\/proc\/(self\/)?mount|\bext4\b|\bmountpoint\b/.test(readFileSync(join(guestFiles, name), 'utf8')),
  )
  expect(looking).toEqual(['mote-volumes'])
})
